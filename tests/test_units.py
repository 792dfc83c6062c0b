from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen import units


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        (600, 600_000),
    ],
)
def test_duration(text: str | int, milliseconds: int) -> None:
    assert units.parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["10min", "1.5s", "-1s", "soon", "", "30d", "s", "1 s", "999999999999d", "٣s"]
)
def test_bad_duration(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        units.parse_duration(text)


@given(st.integers(0, units.MAX_DURATION_MS))
def test_a_printed_duration_reads_back(milliseconds: int) -> None:
    printed = units.format_duration(milliseconds)
    assert units.parse_duration(printed) == milliseconds
    assert not printed.isdigit(), "a bare number means seconds to NGINX and milliseconds to HAProxy"


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 64 << 20), ("50MB", 50 << 20), ("1m", 1 << 20), ("8KiB", 8192), (512, 512)]
)
def test_size(text: str | int, size: int) -> None:
    assert units.parse_size(text) == size


@given(st.integers(0, 1 << 45))
def test_a_printed_size_reads_back(size: int) -> None:
    assert units.parse_size(units.format_size(size)) == size


def test_rate() -> None:
    assert units.parse_rate("600/m") == units.Rate(600, 60)
    assert str(units.parse_rate("10/s")) == "10/s"


@pytest.mark.parametrize("text", ["600", "0/m", "600/d", "-1/s", "6e2/m"])
def test_bad_rate(text: str) -> None:
    with pytest.raises(ValueError, match="not a rate"):
        units.parse_rate(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("gpu-0:8000", "gpu-0:8000"),
        ("10.0.0.7:8000", "10.0.0.7:8000"),
        ("[fd00::2]:8000", "[fd00::2]:8000"),
        ("[FD00:0:0::2]:1", "[fd00::2]:1"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
    ],
)
def test_address(text: str, printed: str) -> None:
    assert str(units.parse_address(text)) == printed


# Each of these is taken by NGINX or by HAProxy in a way that nobody means.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://gpu-0:8000", "URL"),
        ("10.0.0.1:8000/v1", "path"),
        ("gpu-0", "no port"),
        ("10.0.0.1:+80", "not a port"),
        ("10.10.188:80", "IPv4"),
        ("gpu-0:08000", "not a port"),
        ("gpu-0:70000", "not a port"),
        ("gpu-0:0", "not a port"),
        ("fd00::1:8000", "ambiguous"),
        ("[fe80::1%eth0]:80", "zone"),
        ("010.0.0.1:80", "IPv4"),
        ("a b:80", "host name"),
        ("gpu;0:80", "host name"),
        ("-gpu:80", "host name"),
        (":80", "host name"),
        ("[::1]", "no port"),
        ("[gpu]:80", "IPv6"),
    ],
)
def test_bad_address(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        units.parse_address(text)


def test_ranges() -> None:
    assert units.expand_ranges("gpu-[0-2]:8000") == ["gpu-0:8000", "gpu-1:8000", "gpu-2:8000"]
    assert units.expand_ranges("n[08-10]:1") == ["n08:1", "n09:1", "n10:1"]
    assert units.expand_ranges("a[0-1]:[8000-8001]") == ["a0:8000", "a0:8001", "a1:8000", "a1:8001"]
    assert units.expand_ranges("[fd00::2]:8000") == ["[fd00::2]:8000"]


@pytest.mark.parametrize("text", ["gpu-[3-1]:80", "gpu-[0-99999]:80", "a[0-999][0-999]:80"])
def test_bad_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|more than"):
        units.expand_ranges(text)


@pytest.mark.parametrize(("length", "good"), [(253, True), (254, False)])
def test_a_name_has_at_most_253_characters(length: int, good: bool) -> None:
    host = ("a" * 49 + ".") * 6
    host = host[: length - 1] + "b"
    if good:
        assert units.parse_address(f"{host}:80").host == host
    else:
        with pytest.raises(ValueError, match="host"):
            units.parse_address(f"{host}:80")


@pytest.mark.parametrize("label", ["a" * 63, "a_b", "_a", "0"])
def test_labels_of_a_name(label: str) -> None:
    assert units.parse_address(f"{label}.x:80").host == f"{label}.x"


@pytest.mark.parametrize("label", ["a" * 64, "-a", "a-", "a..b"])
def test_no_labels_of_a_name(label: str) -> None:
    with pytest.raises(ValueError, match="is not a host name or an IP address"):
        units.parse_address(f"{label}.x:80")


@pytest.mark.parametrize("port", [1, 9, 10, 65_535])
def test_ports(port: int) -> None:
    assert units.parse_address(f"a:{port}").port == port


# bounds and units, one by one


@pytest.mark.parametrize(
    ("milliseconds", "printed"),
    [(0, "0s"), (1, "1ms"), (1_000, "1s"), (90_000, "90s"), (60_000, "1m"), (5_400_000, "90m"),
     (3_600_000, "1h"), (86_400_000, "24h")],
)  # fmt: skip
def test_a_duration_is_printed_in_its_largest_whole_unit(milliseconds: int, printed: str) -> None:
    assert units.format_duration(milliseconds) == printed


@pytest.mark.parametrize(("text", "good"), [("24d", True), ("2073600000ms", True), ("2073600001ms", False)])
def test_the_longest_duration(text: str, good: bool) -> None:
    if good:
        assert units.parse_duration(text) == 24 * 24 * 3_600_000
    else:
        with pytest.raises(ValueError, match="24 days"):
            units.parse_duration(text)


@pytest.mark.parametrize(
    ("words", "size"), [(("", "b"), 1), (("k", "KB", "KiB"), 1_024), (("M", "mb", "MiB"), 1_048_576),
                        (("g", "GB", "GiB"), 1_073_741_824)],
)  # fmt: skip
def test_every_unit_of_size_is_binary(words: tuple[str, ...], size: int) -> None:
    assert [units.parse_size(f"3{word}") for word in words] == [3 * size] * len(words)


@pytest.mark.parametrize(
    ("size", "printed"),
    [(0, "0"), (1_023, "1023"), (1_024, "1KiB"), (1_536, "1536"), (3_145_728, "3MiB"),
     (5_368_709_120, "5GiB")],
)  # fmt: skip
def test_a_size_is_printed_in_its_largest_whole_unit(size: int, printed: str) -> None:
    assert units.format_size(size) == printed


@pytest.mark.parametrize(("text", "rate"), [("1/s", (1, 1)), ("2/m", (2, 60)), ("7/h", (7, 3_600))])
def test_rates_by_their_period(text: str, rate: tuple[int, int]) -> None:
    assert units.parse_rate(text) == rate
    assert str(units.parse_rate(text)) == text


@pytest.mark.parametrize(("length", "good"), [(107, True), (108, False)])
def test_a_sockets_path_fits_into_an_address_of_linux(length: int, good: bool) -> None:
    path = "/" + "s" * (length - 1)
    if good:
        assert units.parse_server(f"unix:{path}") == units.Address(path, 0)
    else:
        with pytest.raises(ValueError, match="longer than"):
            units.parse_server(f"unix:{path}")


@pytest.mark.parametrize(
    "text", ["[fd00::2:80", "fd00::2]:80", "[a:80", "a]:80", "[]:80", "a:65536", "1.2.3.4.:80"]
)
def test_half_written_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|is ambiguous"):
        units.parse_address(text)


@pytest.mark.parametrize(
    ("text", "count"), [("a-[0-65535]:1", 65_536), ("[7-7]", 1), ("a[0-255][0-255]", 65_536)]
)
def test_as_many_addresses_as_ranges_may_stand_for(text: str, count: int) -> None:
    assert len(units.expand_ranges(text)) == count


@pytest.mark.parametrize("text", ["a-[0-65536]:1", "a[0-256][0-255]"])
def test_a_range_too_many(text: str) -> None:
    with pytest.raises(ValueError, match="65536"):
        units.expand_ranges(text)
