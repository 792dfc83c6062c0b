"""Every code that a problem can have, with what it means; rules bring their own.

Users write codes into ``# lbgen: ignore[code]`` and into the filters of their CI, so a
code keeps its meaning. A test looks for codes in the source that are missing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOUND_LATER = frozenset({"known-vulnerability", "several-addresses"})
"""What only `lbgen check` finds, once it has run the programs."""

CODES: Mapping[str, str] = {
    # YAML
    "yaml-syntax": "the file is not YAML",
    "empty-file": "the file holds nothing",
    "not-a-mapping": "the file is a list or a single value",
    "several-documents": "the file holds more than one YAML document",
    "duplicate-key": "a key is written twice in one mapping",
    "key-not-string": "a key is a number, a boolean, a list or a mapping",
    "leading-zero": "a number begins with a zero, which some programs interpret as octal",
    "recursive-anchor": "an alias refers to a value that contains it",
    "bad-merge": "'<<' is given something else than mappings",
    "too-many-aliases": "aliases make the file explode",
    "too-deep": "lists and mappings are nested too deeply",
    "unknown-tag": "a YAML tag is unknown or does not fit to its value",
    "unsafe-text": "a text has characters that could leave the line they are written on",
    # overlays, --set and ${VAR}
    "bad-overlay": "a value cannot be set, or a list not be extended, because of what is there",
    "unset-variable": "the environment lacks a variable that has no default",
    "bad-reference": "'${…}' is not of a known form",
    # the field table
    "unknown-key": "there is no such key at this place",
    "missing-key": "a required key is not there",
    "conflicting-keys": "keys exclude each other",
    "wrong-type": "a value has the wrong type",
    "bad-value": "a value has the right type and is not allowed",
    "literal-secret": "a secret stands in the file in place of a reference to it",
    # names and references within the fleet
    "unknown-pool": "a pool is named that does not exist",
    "unknown-client": "a client is named that does not exist",
    "duplicate-name": "two things of one kind have the same name",
    "duplicate-server": "a pool has the same address twice",
    "empty-pool": "a pool has no servers",
    "discover-file": "a file of servers cannot be read",
    "unrouted-pool": "no route leads to a pool",
    "split-of-nothing": "all shares of a split are 0",
    "key-without-effect": "a key is written where it does nothing",
    "listener-without-auth": "the fleet has clients, and a listener does not say who may call",
    "no-clients": "a listener asks for keys, and no client has one",
    "balancers-mismatch": "the number of balancers is not that of their peers",
    "cap-below-balancers": "a number is too small to be divided among the balancers",
    # files of other programs
    "bad-log-line": "a line of an access log tells no request",
    "no-configuration": "a file holds no NGINX or HAProxy configuration",
    "rendered-file": "an imported file is one that lbgen rendered",
    # targets
    "target-degraded": "a target does what is written with less protection",
    "target-refused": "a target cannot do what is written",
    "without-unused": "'without' accepts a loss that does not happen",
    "version-too-old": "a target's version is older than the oldest supported one",
    # the programs that check
    "known-vulnerability": "the program that checks has a vulnerability that the fleet's files reach",
    # configurations that others wrote
    "configuration-syntax": "a configuration cannot be read from here on, or its program would refuse it",
    "unreadable-include": "a file that a configuration includes cannot be read",
    "unknown-condition": "a condition of HAProxy's configuration cannot be decided here",
    "several-addresses": "a server's name stands for several machines",
    # comments
    "unknown-code": "a comment ignores a code that does not exist",
    "unused-ignore": "a comment ignores what is not there",
    "ignored-error": "a comment tries to ignore an error",
    # workloads
    "bad-trace-row": "a row of a trace cannot be read",
}
