from __future__ import annotations

import ssl
from contextlib import suppress

from lbgen.checker.certificate import throwaway_bundle


def test_openssl_takes_the_pair(tmp_path):
    path = tmp_path / "bundle.pem"
    path.write_text(throwaway_bundle())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)  # raises when the key is not the certificate's
    context.load_verify_locations(path)


def test_each_is_another():
    assert throwaway_bundle() != throwaway_bundle()


def test_its_name_is_where_all_clients_look(tmp_path):
    """Python, as Envoy, reads no common name."""
    path = tmp_path / "bundle.pem"
    path.write_text(throwaway_bundle("gpu.internal"))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(path))
    server.load_cert_chain(path)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    talking = client.wrap_bio(theirs, ours, server_hostname="gpu.internal")
    answering = server.wrap_bio(ours, theirs, server_side=True)
    for one in (talking, answering, talking, answering):
        with suppress(ssl.SSLWantReadError):
            one.do_handshake()
    assert talking.version() is not None
