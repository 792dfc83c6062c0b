from __future__ import annotations

import ssl

from lbgen.checker.certificate import throwaway_bundle


def test_openssl_takes_the_pair(tmp_path):
    path = tmp_path / "bundle.pem"
    path.write_text(throwaway_bundle())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)  # raises when the key is not the certificate's
    context.load_verify_locations(path)


def test_each_is_another():
    assert throwaway_bundle() != throwaway_bundle()
