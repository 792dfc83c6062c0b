"""What Mozilla's guideline for server-side TLS recommends, revision 5.7.

Source: wiki.mozilla.org/Security/Server_Side_TLS.
"""

INTERMEDIATE_CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)
"""For TLS 1.2 under the profile ``intermediate``; without DHE, which wants parameters of its own."""

SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
"""The public authorities, where Debian, Ubuntu, Alpine and the programs' own images have them in one file."""

TLS13_SUITES = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
"""Under both profiles."""
