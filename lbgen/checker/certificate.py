"""A throwaway certificate with its key, for checks on machines that have none.

NGINX and HAProxy load certificates while they check a configuration. Made here, in plain
Python, because neither the openssl program nor the cryptography package can be counted on
where `lbgen check` runs. The key protects nothing and is deleted with the check's folder.
Curve: NIST P-256 (FIPS 186-4, D.1.2.3); encodings: RFC 5280 and RFC 5915.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_Point = tuple[int, int]

_INTEGER, _BITS, _OCTETS, _OBJECT, _TEXT, _TIME, _SEQUENCE, _SET = 2, 3, 4, 6, 12, 23, 0x30, 0x31
_PRIME256V1 = bytes.fromhex("2a8648ce3d030107")
_EC_PUBLIC_KEY = bytes.fromhex("2a8648ce3d0201")
_ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("550403")
_OTHER_NAMES = bytes.fromhex("551d11")


def throwaway_bundle(name: str = "lbgen check") -> str:
    """Return a self-signed certificate for a name, followed by its key, both as PEM."""
    key = secrets.randbelow(_ORDER - 1) + 1
    public = _public_bits(key)
    return _pem("CERTIFICATE", _certificate(key, public, name)) + _pem(
        "EC PRIVATE KEY", _private_key(key, public)
    )


def _certificate(key: int, public: bytes, common_name: str) -> bytes:
    algorithm = _der(_SEQUENCE, _der(_OBJECT, _ECDSA_WITH_SHA256))
    word = _der(_SEQUENCE, _der(_OBJECT, _COMMON_NAME), _der(_TEXT, common_name.encode()))
    name = _der(_SEQUENCE, _der(_SET, word))
    curve = _der(_SEQUENCE, _der(_OBJECT, _EC_PUBLIC_KEY), _der(_OBJECT, _PRIME256V1))
    # Envoy compares a server's name with these alone.
    dns = _der(_OCTETS, _der(_SEQUENCE, _der(0x82, common_name.encode())))
    names = _der(_SEQUENCE, _der(_OBJECT, _OTHER_NAMES), dns)
    body = _der(
        _SEQUENCE,
        _der(0xA0, _integer(2)),
        _integer(secrets.randbits(63) | 1),
        algorithm,
        name,
        _der(_SEQUENCE, _der(_TIME, b"200101000000Z"), _der(_TIME, b"491231235959Z")),
        name,
        _der(_SEQUENCE, curve, public),
        _der(0xA3, _der(_SEQUENCE, names)),
    )
    return _der(_SEQUENCE, body, algorithm, _der(_BITS, b"\0", _signature(key, body)))


def _private_key(key: int, public: bytes) -> bytes:
    curve = _der(0xA0, _der(_OBJECT, _PRIME256V1))
    return _der(_SEQUENCE, _integer(1), _der(_OCTETS, key.to_bytes(32, "big")), curve, _der(0xA1, public))


def _public_bits(key: int) -> bytes:
    x, y = _multiplied(key, _BASE)
    return _der(_BITS, b"\0\x04", x.to_bytes(32, "big"), y.to_bytes(32, "big"))


def _signature(key: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    nonce = secrets.randbelow(_ORDER - 1) + 1
    first = _multiplied(nonce, _BASE)[0] % _ORDER
    second = pow(nonce, -1, _ORDER) * (digest + first * key) % _ORDER
    return _der(_SEQUENCE, _integer(first), _integer(second))


def _multiplied(factor: int, point: _Point) -> _Point:
    """Return the multiple by a factor from 1 to the order; so no step meets the point at infinity."""
    result: _Point | None = None
    while factor:
        if factor & 1:
            result = point if result is None else _added(result, point)
        point = _added(point, point)
        factor >>= 1
    return result or point


def _added(left: _Point, right: _Point) -> _Point:
    if left == right:
        slope = 3 * (left[0] ** 2 - 1) * pow(2 * left[1], -1, _P)  # the curve's a is -3
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, _P)
    x = (slope**2 - left[0] - right[0]) % _P
    return x, (slope * (left[0] - x) - left[1]) % _P


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content


def _pem(kind: str, data: bytes) -> str:
    text = base64.encodebytes(data).decode()
    lines = text.replace("\n", "")
    wrapped = "\n".join(lines[start : start + 64] for start in range(0, len(lines), 64))
    return f"-----BEGIN {kind}-----\n{wrapped}\n-----END {kind}-----\n"
