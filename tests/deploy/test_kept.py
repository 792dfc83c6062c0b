from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.deploy.runtime.kept import Kept, kept, through_reload
from lbgen.model import State
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.targets.haproxy.reading.read import read
from lbgen.targets.inventory import Inventory
from tests import factory
from tests.deploy.fake_haproxy import FakeHaproxy, Server


def text(state: State = State.UP, names: str = "gpu-[0-1]:8000") -> str:
    pool = factory.pool(servers=factory.servers(names, state=state))
    return render(factory.fleet(pool, targets=(factory.settings("haproxy", "2.6"),)), "haproxy")[0].text


def file(state: State = State.UP, names: str = "gpu-[0-1]:8000") -> Inventory:
    return read(text(state, names))


def found(tmp_path: Path, server: Server, old: Inventory, new: Inventory) -> list[str]:
    with FakeHaproxy(tmp_path / "s", **{"gpu-0": server, "gpu-1": Server()}) as one:
        return [f"{it.server} {it.state}" for it in kept(str(one.path), old, new)]


def test_what_was_taken_out_at_run_time_is_kept(tmp_path: Path) -> None:
    assert found(tmp_path, Server(admin=8), file(), file()) == ["gpu-0 drain"]


@pytest.mark.parametrize(
    ("admin", "old", "new"),
    [
        (0, file(), file()),
        (5, file(State.DOWN), file()),
        (1, file(State.DOWN), file()),
        (1, file(), file(State.DOWN)),
        (8, file(), file(State.DRAIN)),
        (1, file(names="gpu-1:8000"), file()),
        (8, file(), file(names="gpu-1:8000")),
    ],
    ids=[
        "up",
        "down by its line",
        "down by the old file",
        "down in the new file",
        "drained in the new file",
        "removed before",
        "goes",
    ],
)
def test_what_the_files_say_is_not(tmp_path: Path, admin: int, old: Inventory, new: Inventory) -> None:
    assert found(tmp_path, Server(admin=admin), old, new) == []


def reloaded(tmp_path: Path, main: Path, *, restores: bool) -> tuple[str, str, list[str]]:
    """Return the main file and the state file as the new process sees them, and what is said."""
    said: list[str] = []
    with FakeHaproxy(tmp_path / "s", **{"gpu-0": Server(admin=8), "gpu-1": Server()}) as one:
        with through_reload("haproxy", str(one.path), main, file(), file(), said.append):
            seen = main.read_text()
            state = (main.parent / ".lbgen-kept-servers").read_text()
            one.pid += 1
            one.servers["gpu-0"].admin = 8 if restores else 0
        assert one.servers["gpu-0"].admin == 8
    return seen, state, said


def test_the_new_process_is_told_by_a_state_file(tmp_path: Path) -> None:
    main = tmp_path / "haproxy.cfg"
    main.write_text(text())
    seen, state, said = reloaded(tmp_path, main, restores=True)
    assert f"global\n    server-state-file {tmp_path}/.lbgen-kept-servers\n" in seen
    assert "defaults lbgen\n    load-server-state-from-file global\n" in seen
    assert len(seen.splitlines()) == len(text().splitlines()) + 2
    assert [line.split()[1:4:2] for line in state.splitlines()[1:]] == [["chat", "gpu-0"]]
    assert said == ["haproxy: " + Kept("chat", "gpu-0", "drain", agent=False).words]
    assert main.read_text() == text()
    assert not (tmp_path / ".lbgen-kept-servers").exists()


def test_the_new_process_goes_on_checking_them(tmp_path: Path) -> None:
    main = tmp_path / "haproxy.cfg"
    main.write_text(text())
    _, state, _ = reloaded(tmp_path, main, restores=True)
    status, _, health, checks = state.splitlines()[1].split()[10:14]
    assert int(status) > 0, "with 0 the server is never checked again"
    assert int(health) >= 2, "up"
    assert int(checks) == 6, "configured and enabled"


def test_a_state_file_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    main = tmp_path / "haproxy.cfg"
    own = text().replace("global\n", "global\n    server-state-file /own\n", 1)
    main.write_text(own)
    seen, _, said = reloaded(tmp_path, main, restores=False)
    assert seen == own
    assert "in rotation for a moment" in said[0]


def test_a_reload_that_fails_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    main = tmp_path / "haproxy.cfg"
    main.write_text(text())
    with (
        FakeHaproxy(tmp_path / "s", **{"gpu-0": Server(admin=8)}) as one,
        pytest.raises(LbgenError, match="no"),
        through_reload("haproxy", str(one.path), main, file(), file(), lambda _: None),
    ):
        raise LbgenError("no")
    assert main.read_text() == text()


def test_what_a_killed_apply_left_goes(tmp_path: Path) -> None:
    (tmp_path / ".lbgen-kept-servers").write_text("1\n")
    with (
        FakeHaproxy(tmp_path / "s", **{"gpu-0": Server()}) as one,
        through_reload("haproxy", str(one.path), tmp_path / "haproxy.cfg", file(), file(), lambda _: None),
    ):
        assert not (tmp_path / ".lbgen-kept-servers").exists()


def test_without_an_answer_it_is_said_that_nothing_is_known(tmp_path: Path) -> None:
    said: list[str] = []
    with through_reload(
        "haproxy", str(tmp_path / "nobody"), tmp_path / "haproxy.cfg", file(), file(), said.append
    ):
        pass
    assert "cannot tell which servers were drained at run time" in said[0]
