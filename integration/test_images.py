"""The images that the other tests of this folder run in."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from integration import debian, images
from integration.debian import ImageError
from integration.images import CHOICE, GENERATIONS


@pytest.mark.parametrize("suite", GENERATIONS)
def test_a_local_image_holds_the_versions_of_its_generation(suite: str) -> None:
    """Build for real, where that was asked for."""
    if os.environ.get(CHOICE) != "local":
        pytest.skip(f"building images takes {CHOICE}=local, root and debootstrap")
    images.verify(suite, images.versions(images.ensure(suite)))


def test_a_program_of_another_version_or_none_is_named() -> None:
    """Compare whole numbers, and see what is absent."""
    with pytest.raises(ImageError, match=r"nginx is 1\.220\.1, not 1\.22; python is missing, not 3\.11$"):
        images.verify("bookworm", {"nginx": "1.220.1", "haproxy": "2.6.12"})


def test_a_tag_changes_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached image must not outlive its list of packages."""
    before = images.tag_of("trixie")
    changed = replace(GENERATIONS["trixie"], packages=("nginx",))
    monkeypatch.setattr(images, "GENERATIONS", {"trixie": changed})
    assert images.tag_of("trixie") != before
    assert images.tag_of("trixie").startswith("lbgen-integration:trixie-")


@pytest.mark.parametrize(
    ("choice", "present", "expected"),
    [
        ("official", True, "python:3.13-slim"),
        ("", False, "python:3.13-slim"),
        ("", True, images.tag_of("trixie")),
        ("local", False, "built"),
    ],
)
def test_where_an_image_comes_from(
    monkeypatch: pytest.MonkeyPatch, choice: str, present: bool, expected: str
) -> None:
    """An explicit choice wins, and without one nothing is built."""
    monkeypatch.setenv(CHOICE, choice)
    monkeypatch.setattr(images, "exists", lambda _image: present)
    monkeypatch.setattr(images, "ensure", lambda _suite: "built")
    assert images.resolve("trixie", "python") == expected


def test_an_unknown_choice_or_suite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typing errors never fall back to something else."""
    with pytest.raises(ImageError, match=r"unknown suite 'buster': one of bookworm, trixie, sid"):
        images.ensure("buster")
    monkeypatch.setenv(CHOICE, "locale")
    with pytest.raises(ImageError, match=r"LBGEN_TEST_IMAGES='locale': say local or official"):
        images.resolve("sid", "nginx")


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("", debian.DEFAULT_MIRROR),
        ("http://deb.debian.org/debian-security/ main\n", debian.DEFAULT_MIRROR),
        ("https://download.docker.com/linux/debian/ stable\n", debian.DEFAULT_MIRROR),
        (
            "http://a.example/debian-security/ main\nhttp://m.example/debian/ main\n",
            "http://m.example/debian",
        ),
    ],
)
def test_only_a_whole_archive_is_a_mirror(listing: str, expected: str) -> None:
    """Skip security archives and other vendors."""
    assert debian.mirror_in(listing) == expected
