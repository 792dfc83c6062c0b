"""Servers from a Prometheus file_sd file, read when files are rendered."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import yaml

from lbgen.fleet.build.servers import Draft
from lbgen.problems import LbgenError
from lbgen.reading import MIB, read_bytes
from lbgen.units import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.fleet.build.context import Context
    from lbgen.problems import Path

MAX_BYTES = 16 * MIB


def discovered(context: Context, name: str, path: Path) -> list[Draft] | None:
    """Return the servers of a file; None, with a problem, where it cannot be read.

    `path` is where the fleet names the file; a relative name counts from there.
    """
    try:
        return list(_drafts(_groups(_file(context, name, path)), path))
    except (LbgenError, ValueError) as error:
        context.error("discover-file", f"'{name}': {error}", path)
        return None


def _file(context: Context, name: str, path: Path) -> FilePath:
    location = context.document.locate(path)
    folder = FilePath(location.file).parent if location else FilePath()
    return folder / name


def _groups(file: FilePath) -> list[Any]:
    try:
        # JSON is YAML, too.
        data = yaml.load(read_bytes(file, MAX_BYTES), yaml.CSafeLoader)
    except OSError as error:
        raise LbgenError(f"it cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise LbgenError(f"neither valid JSON nor YAML{where}") from None
    if not isinstance(data, list):
        raise LbgenError("it is not a list of groups, each with targets and labels")
    return data


def _drafts(groups: list[Any], path: Path) -> Iterator[Draft]:
    for group in groups:
        targets = group.get("targets") if isinstance(group, dict) else None
        labels = group.get("labels") or {} if isinstance(group, dict) else None
        if not isinstance(targets, list) or not isinstance(labels, dict):
            raise LbgenError("a group is a mapping with a list of targets and a mapping of labels")
        values = _values(labels)
        for number, target in enumerate(targets):
            name = str(labels.get("name", ""))
            if name and len(targets) > 1:
                name = f"{name}-{number}"
            yield Draft(parse_address(str(target)), _checked(name), values, path)


def _values(labels: dict[str, Any]) -> dict[str, Any]:
    weight = labels.get("__weight__", labels.get("weight"))
    if weight is None:
        return {}
    text = str(weight)
    if not (text.isascii() and text.isdecimal() and int(text) <= 256):
        raise LbgenError(f"the weight '{text[:40]}' is not a whole number from 0 to 256")
    return {"weight": int(text)}


def _checked(name: str) -> str:
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    if name and not (plain.isascii() and plain.isalnum() and name[0].isalnum() and len(name) <= 63):
        raise LbgenError(f"the name {name[:40]!r} is not made of letters, digits, '.', '_' and '-'")
    return name
