"""What Envoy says of a configuration, and what of that is shown."""

from __future__ import annotations

from pathlib import Path

from lbgen.targets.envoy.process.check import CHECKS
from lbgen.targets.envoy.process.program import PROGRAM
from lbgen.vocabulary import Version

SAID = (
    "[2026-11-30 13:07:39.764][2131][critical][main] [source/server/config_validation/server.cc:76] error "
    "initializing configuration '/tmp/x/envoy.yaml': Unable to parse JSON as proto (INVALID_ARGUMENT: invalid"
    '   JSON @ static_resources): {"static_resources":{"key":"sk-secret"}}\n'
    "[2026-11-30 13:07:39.764][2131][warning][misc] [source/x.cc:39] something else\n"
)


def test_a_complaint_does_not_repeat_the_configuration() -> None:
    (message,) = CHECKS.messages(SAID)
    assert message.is_error
    assert message.text.startswith("Unable to parse JSON as proto (INVALID_ARGUMENT: invalid JSON @")
    assert "sk-secret" not in message.text


def test_the_version() -> None:
    said = "envoy  version: bad8280de85c25b147a90c1d9b8a8c67a13e7134/1.36.4/Clean/RELEASE/BoringSSL"
    assert PROGRAM.version(lambda _: said) == Version(1, 36, 4)
    assert PROGRAM.image(Version(1, 36)) == "envoyproxy/envoy:v1.36-latest"
    assert PROGRAM.image(Version(1, 36, 4)) == "envoyproxy/envoy:v1.36.4"
    assert PROGRAM.checking(Path("/x"), Version(1, 36))[:2] == ["--mode", "validate"]
