"""What the real programs print, as seen on 1.22.1 and 2.6.12."""

from __future__ import annotations

from lbgen.targets.program import Message
from lbgen.targets.registry import TARGETS


def test_nginx():
    output = """\
2026/11/29 17:33:13 [warn] 2170#2170: duplicate MIME type "text/html" in /tmp/x/nginx.conf:3
nginx: [warn] duplicate MIME type "text/html" in /tmp/x/nginx.conf:3
2026/11/29 17:33:13 [notice] 2170#2170: something
nginx: [emerg] host not found in upstream "gpu-0:8000" in /tmp/x/nginx.conf:7
nginx: configuration file /tmp/x/nginx.conf test failed
"""
    assert list(TARGETS["nginx"].checks.messages(output)) == [
        Message(is_error=False, text='duplicate MIME type "text/html"', file="/tmp/x/nginx.conf", line=3),
        Message(
            is_error=True, text='host not found in upstream "gpu-0:8000"', file="/tmp/x/nginx.conf", line=7
        ),
    ]


def test_haproxy():
    output = """\
[NOTICE]   (2164) : haproxy version is 2.6.12-1+deb12u4
[NOTICE]   (2164) : path to executable is /usr/sbin/haproxy
[WARNING]  (2164) : config : [h.cfg:13] : 'server b/b' : could not resolve address 'nosuch.invalid'.
[ALERT]    (2164) : config : parsing [h.cfg:3] : cannot find user id for 'nosuchuser' (0:Success)
  second line
[ALERT]    (2164) : config : Error(s) found in configuration file : h.cfg
[ALERT]    (2164) : config : Fatal errors found in configuration.
"""
    assert list(TARGETS["haproxy"].checks.messages(output)) == [
        Message(
            is_error=False,
            text="'server b/b' : could not resolve address 'nosuch.invalid'.",
            file="h.cfg",
            line=13,
        ),
        Message(
            is_error=True,
            text="cannot find user id for 'nosuchuser' (0:Success) second line",
            file="h.cfg",
            line=3,
        ),
    ]
