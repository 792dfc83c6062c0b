"""One check of one target: stand-ins, a temporary folder, the program, and what it said in our words."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.checker import vulnerabilities
from lbgen.checker.programs import differs, find
from lbgen.checker.spec import Verdict
from lbgen.checker.stand_ins import stood_in
from lbgen.checker.surroundings import Surroundings
from lbgen.problems import Location, Problem, Severity
from lbgen.render import render
from lbgen.runtimes.spec import NoProgramError
from lbgen.secret_values import StandInSecrets
from lbgen.targets.program import Message
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lbgen.checker.programs import Choice, Found
    from lbgen.model import Fleet, Secret
    from lbgen.runtimes.spec import Finished

NAMES_SHOWN = 3


class _WatchedSecrets(StandInSecrets):
    """Remembers the values that it gave, so that no message shows one."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, str] = {}

    def resolve(self, secret: Secret) -> str:
        """Return the value or a stand-in."""
        value = super().resolve(secret)
        self._given[value] = str(secret)
        return value

    def masked(self, message: Message, *, in_secret_file: bool) -> Message:
        """Return the message without secrets; one about a file of secrets loses every word it quotes."""
        text = re.sub(r"""(["'])[^"']*\1""", '"..."', message.text) if in_secret_file else message.text
        for value, name in self._given.items():
            text = text.replace(value, f"<{name}>")
        return message._replace(text=text)


class _Asked(NamedTuple):
    """What one check is asked for."""

    fleet: Fleet
    target: str
    resolve: bool
    templates: Path | None


class _Answer(NamedTuple):
    """How the program ended, its messages with places in the rendered files, and what was stood in for."""

    finished: Finished
    messages: tuple[Message, ...]
    notes: tuple[str, ...]
    texts: Mapping[str, str]
    """The files as the program saw them, with the stand-ins, without those that hold secrets."""


def check_target(
    fleet: Fleet,
    target: str,
    choice: Choice,
    say: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Let the target's program check what is rendered for it; nothing outside a temporary folder is touched.

    `say` hears what only somebody looking for a fault wants to
    know. Raises `LbgenError` when the program that the user named is not to be had or cannot be run.
    """
    if choice.mode == "none" and target not in choice.named:
        return Verdict(target, f"not checked by {target}: --binary none", checked=False)
    wanted = fleet.target(target).version
    try:
        found = find(target, wanted, choice, say)
    except NoProgramError as error:
        return Verdict(target, f"not checked by {target}: {error}", checked=False)
    say(f"{target}: checked by {found.program.place}")
    asked = _Asked(fleet, target, choice.resolve, choice.templates)
    answer = _ask(asked, found)
    lacking = TARGETS[target].checks.lacking(answer.messages)
    if lacking:
        return _check_without(asked, found, lacking)
    return _verdict(asked, found, answer)


def _check_without(asked: _Asked, found: Found, lacking: str) -> Verdict:
    """Check again without what the program lacks here, when the fleet can be rendered without."""
    target = TARGETS[asked.target]
    fleet = target.checks.without(asked.fleet)
    if any(problem.is_error for problem in target.limits(fleet)):
        line = f"not checked by {asked.target}: {lacking} is not installed here"
        return Verdict(asked.target, line, checked=False)
    asked = asked._replace(fleet=fleet)
    answer = _ask(asked, found)
    return _verdict(asked, found, answer._replace(notes=(*answer.notes, f"left out modules: {lacking}")))


def _ask(asked: _Asked, found: Found) -> _Answer:
    target = TARGETS[asked.target]
    with tempfile.TemporaryDirectory(prefix="lbgen-check-") as name:
        folder = Path(name).resolve()
        directory = asked.fleet.target(asked.target).directory
        around = Surroundings(
            folder, directory, in_container=found.program.in_container, resolve=asked.resolve
        )
        fleet = stood_in(asked.fleet, asked.target, around, found.program)
        secrets = _WatchedSecrets()
        files = render(fleet, asked.target, templates=asked.templates, secrets=secrets)
        hidden = {file.path for file in files if file.secret}
        for file in files:
            _write(folder / file.path, file.text)
        for secret in secrets.missing:
            around.note("secrets", str(secret))
        finished = found.program.run(target.program.checking(folder / files[0].path, found.version), folder)
        placed = (_placed(message, folder) for message in target.checks.messages(finished.output))
        messages = tuple(secrets.masked(message, in_secret_file=message.file in hidden) for message in placed)
    texts = {file.path: file.text.replace(f"{folder}/", "") for file in files if not file.secret}
    return _Answer(finished, messages, tuple(_notes(around.replaced)), texts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def _placed(message: Message, folder: Path) -> Message:
    """Return the message with its file named as in the rendered output, and no word of our folder."""
    prefix = f"{folder}/"
    return message._replace(file=message.file.removeprefix(prefix), text=message.text.replace(prefix, ""))


def _notes(replaced: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for kind, names in replaced.items():
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        yield f"stand-ins for {kind}: {', '.join(names[:NAMES_SHOWN])}{more}"


def _verdict(asked: _Asked, found: Found, answer: _Answer) -> Verdict:
    wanted = asked.fleet.target(asked.target).version
    other = differs(found.version, wanted)
    messages = list(answer.messages)
    if answer.finished.code != 0 and not any(message.is_error for message in messages):
        messages.append(Message(is_error=True, text=_ending(answer.finished)))
    notes = answer.notes
    if other:  # what another version warns of need not hold for the one that the fleet is for
        notes += tuple(f"warns: {message.text}" for message in messages if not message.is_error)
        messages = [message for message in messages if message.is_error]
    files = _texts(asked) if messages else {}
    problems = tuple(_problem(asked.target, message, files, answer.texts) for message in messages)
    line = f"{asked.target} {found.version}: {_outcome(problems)}{other}"
    return Verdict(
        asked.target,
        line,
        checked=True,
        problems=(*problems, *_vulnerabilities(asked.target, found, answer)),
        notes=notes,
        files=tuple(files.items()),
    )


def _vulnerabilities(target: str, found: Found, answer: _Answer) -> Iterator[Problem]:
    candidates = vulnerabilities.candidates(target, found.version, answer.texts.values())
    if candidates:  # asking for the package takes two calls of a program
        package = found.program.package() or _packaged(target, found)
        yield from vulnerabilities.problems(target, str(found.version), package, candidates)


def _packaged(target: str, found: Found) -> str:
    return TARGETS[target].program.package(lambda arguments: found.program.run(arguments).output)


def _outcome(problems: Sequence[Problem]) -> str:
    if any(problem.is_error for problem in problems):
        return "refused"
    return f"ok, with {len(problems)} warning{'s' if len(problems) > 1 else ''}" if problems else "ok"


def _ending(finished: Finished) -> str:
    if finished.code < 0:
        return f"the program crashed (signal {-finished.code})"
    return finished.output.strip() or f"the program ended with {finished.code} and said nothing"


def _texts(asked: _Asked) -> dict[str, str]:
    """Return the files as they are for the user, by ``TARGET/PATH``; those with secrets are left out."""
    files = render(asked.fleet, asked.target, templates=asked.templates, secrets=StandInSecrets())
    return {f"{asked.target}/{file.path}": file.text for file in files if not file.secret}


def _problem(target: str, message: Message, files: Mapping[str, str], seen: Mapping[str, str]) -> Problem:
    name = f"{target}/{message.file}"
    location = None
    if name in files and message.file in seen and message.line:
        lines = files[name].splitlines()
        line = _line_for_user(seen[message.file].splitlines(), lines, message.line)
        text = lines[line - 1]
        location = Location(name, line, len(text) - len(text.lstrip()) + 1)
    elif message.file:
        message = message._replace(text=f"{message.text} ({message.file}:{message.line})")
    severity = Severity.ERROR if message.is_error else Severity.WARNING
    return Problem(f"{target}-says", message.text, severity=severity, location=location)


def _line_for_user(seen: Sequence[str], lines: Sequence[str], number: int) -> int:
    """Return where the line that the program counted stands in the file without stand-ins.

    Stand-ins may add lines: NGINX's names for servers, its temporary folders.
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - only a complaint needs it

    for _, seen_start, seen_end, start, end in SequenceMatcher(None, seen, lines).get_opcodes():
        if seen_start < number <= seen_end:
            return max(1, min(start + number - seen_start, end))
    return min(number, len(lines))
