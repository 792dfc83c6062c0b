"""Keys for servers on NGINX's consistent hash; `integration/test_njs.py` has NGINX itself agree."""

from __future__ import annotations

from lbgen.targets.nginx.pools.ring import keys_of


def test_every_server_has_a_key_of_its_own() -> None:
    servers = [(f"gpu-{number}:8000", number % 3 + 1) for number in range(40)]
    keys = keys_of(servers)
    assert set(keys) == {address for address, _ in servers}
    assert len(set(keys.values())) == 40


# What NGINX 1.26.3 chose: `hash $arg_k consistent` over these servers, k from 0 to 11.
SERVERS = [("127.0.0.1:29301", 1), ("127.0.0.1:29302", 3), ("127.0.0.1:29303", 1), ("localhost:29304", 1)]
SEEN = [
    "29304",
    "29302",
    "29304",
    "29303",
    "29304",
    "29302",
    "29302",
    "29304",
    "29302",
    "29302",
    "29301",
    "29302",
]


def test_keys_lead_where_nginx_leads_them() -> None:
    keys = keys_of(SERVERS)
    assert {address: SEEN[int(key)] for address, key in keys.items()} == {
        address: address[-5:] for address, _ in SERVERS
    }
