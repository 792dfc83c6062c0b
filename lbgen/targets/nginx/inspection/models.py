"""The model that a request names, in its path, body or query, as variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.paths import LISTED, model_paths, objects_regex
from lbgen.targets.nginx.inspection import forms, json_regex
from lbgen.targets.nginx.inspection.bodies import max_tokens, member, over_regex
from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.nginx.language.words import size

if TYPE_CHECKING:
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.spec import Syntax

READABLE, HIDDEN, ENCODED, BROKEN, ODD, ILL = "012345"
"""Values of `state`."""
REFUSALS = {
    HIDDEN: "lb-model-unreadable",
    ENCODED: "lb-unsupported-encoding",
    BROKEN: "lb-bad-body",
    ODD: "lb-odd-spelling",
    ILL: "lb-bad-form",
}
"""Who answers a request whose body would decide and cannot be read."""
_IDENTITY = "(?:identity(?:, *identity)*)?"


def model(made: Assembly) -> Syntax:
    """Return the variable with the model, behind a mark of how it is spelled (`forms.value_regex`).

    The path's goes before the body's, and that before the query's. Empty: none is named.
    """
    query = forms.parameter(made, "model")
    tagged = forms.marked(made, member(made, "model", "lb_model", json_regex.TEXT), "j", query)
    if any(pool.engine == "ollama" for pool in made.fleet.pools):
        tagged = _with_name(made, tagged, query)
    form = forms.field(made, "model")
    form = made.map(form, "$lb_model_form", [('""', query), ("default", form)])
    kinds = [("default", query), ("json", tagged), ("form", form), ("parts", form)]
    body = made.map(forms.KIND, "$lb_model_inside", kinds)
    return forms.marked(made, _path_model(made), "r", body)


def _path_model(made: Assembly) -> Syntax:
    entries = [("default", '""')]
    for number, prefix in enumerate([LISTED, *model_paths(made.fleet.listeners)]):
        rest = ".+" if prefix == LISTED else "[^/]+"
        capture = f"lb_path_model_{number}"
        entries.append((regex_word(f"~^{escape_regex(prefix)}(?<{capture}>{rest})"), f"${capture}"))
    return made.map("$uri", "$lb_path_model", entries)


def _with_name(made: Assembly, tagged: Syntax, query: Syntax) -> Syntax:
    """Return the variable that is also `name`, as older requests to Ollama have it."""
    named = forms.marked(made, member(made, "name", "lb_name", json_regex.TEXT), "j", query)
    without = made.map("$uri", "$lb_model_name", [("default", query), (regex_word("~^/api/"), named)])
    return made.map(
        member(made, "model", "lb_model", json_regex.TEXT),
        "$lb_model_or_name",
        [
            ('""', without),
            ("default", tagged),
        ],
    )


def state(made: Assembly, most: int, *, tokens: bool) -> Syntax:
    """Return the variable that is 0 where the body can be read, else why not.

    `most`: bytes that are looked at. `tokens`: their number decides.
    """
    # What says that it is no JSON, and does not look like it, is none: it has no model.
    claim = made.flag("$content_type", [("default", "other"), ('""', "json"), (regex_word("~*json"), "json")])
    # The buffer holds a quarter more than is asked for (seen on 1.22.1 to 1.30.6).
    over = regex_word(f"~^(?:{over_regex(most)})$")
    longer = made.flag("$content_length", [("default", '""'), (over, "long")])
    odd = _odd(made, tokens=tokens)
    # Forms may be as long as the buffer: they carry files.
    entries = [
        ("default", ENCODED),
        (regex_word("~^1"), READABLE),
        (regex_word(f"~*^:(?:json:[a-z]+|other:other|form:[a-z]+):0+::{_IDENTITY}$"), READABLE),
        (regex_word(f"~*^:parts:[a-z]+:0+:(?:long)?:{_IDENTITY}$"), READABLE),
        (regex_word(f"~*^:(?:ill:[a-z]+:[0-2]+:(?:long)?|[a-z]+:[a-z]+:0*2[0-2]*:):{_IDENTITY}$"), ILL),
        (regex_word(f"~*^:(?:(?:json|form):[a-z]+:[01]+:|parts:[a-z]+:[01]+:(?:long)?):{_IDENTITY}$"), ODD),
        (regex_word(f"~*^:(?:broken|other):[a-z]+:[01]+::{_IDENTITY}$"), BROKEN),
        (regex_word(f"~*^:[a-z]+:[a-z]+:[0-2]+:[^:]*:{_IDENTITY}$"), HIDDEN),
    ]
    named = made.flag(_path_model(made), [('""', '""'), ("default", "1")])
    source = f'"{named}:{forms.KIND}:{claim}:{odd}:{longer}$request_body_file:$http_content_encoding"'
    return made.map(source, f"$lb_body_state_{size(most)}{'_tokens' if tokens else ''}", entries)


def _odd(made: Assembly, *, tokens: bool) -> str:
    """Return variables that are 1 for a name with escapes that nobody needs, and a number with an exponent.

    2: the query names two models. A map can compare text, and change none.
    """
    escaped = regex_word(r"~^j:[^\\]*(?:\\(?!u00[2-7]).[^\\]*)*\\u00[2-7]")
    needless = regex_word(f"~^q:.*{forms.NEEDLESS}")
    name = made.flag(
        model(made), [("default", "0"), (escaped, "1"), (needless, "1"), (regex_word("~^[?]"), "2")]
    )
    if not tokens:
        return name
    return name + made.flag(max_tokens(made), [("default", "0"), (regex_word("~[eE]"), "1")])


def unknown_model(made: Assembly) -> Syntax:
    """Return the variable that names the answer where no route fits: unknown model, or no route."""
    kept = regex_word(f"~{objects_regex()}")
    nowhere = made.flag("$uri", [("default", "lb-not-found"), (kept, "lb-made-elsewhere")])
    return made.map(model(made), "$lb_unknown", [('""', nowhere), ("default", "lb-model-not-found")])
