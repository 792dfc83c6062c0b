"""How NGINX and HAProxy run in a container of their official images.

Sources: https://github.com/nginx/docker-nginx, https://github.com/docker-library/haproxy. Both start as
process 1 in the foreground, as a user of their own who may write to `/tmp` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Program(NamedTuple):
    """A target's program in a container."""

    user: int
    """The user and group that its official image has for it."""
    stop: str
    """The signal after which streams finish and no new ones come."""
    reload: str
    """The signal that makes it read its files again."""
    command: tuple[str, ...]
    """``{directory}`` stands for the folder of its files."""
    raw: Mapping[str, tuple[str, ...]] = {}
    """Lines for levels of its configuration, each a directive that the fleet's own lines may replace."""
    as_root: tuple[str, ...] = ()
    """The capabilities that it does not start without where its user is root."""

    def command_in(self, directory: str) -> list[str]:
        """Return the command for files in a folder."""
        return [word.replace("{directory}", directory) for word in self.command]


_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

PROGRAMS: Mapping[str, Program] = {
    "nginx": Program(
        user=101,
        stop="QUIT",
        reload="HUP",
        # It opens the error log and the pid file that were compiled in, which this user may not write.
        command=("nginx", "-e", "stderr", "-c", "{directory}/nginx.conf",
                 "-g", "daemon off; pid /tmp/nginx.pid;"),
        # Likewise: it makes all these folders when it starts.
        raw={"http": tuple(f"{name}_temp_path /tmp/{name};" for name in _TEMPORARY)},
        # Its workers become nobody, and the folders nobody's.
        as_root=("CHOWN", "SETGID", "SETUID"),
    ),
    "haproxy": Program(
        user=99,
        stop="USR1",
        reload="USR2",
        # With a master process (-W), which is what reloads; in the foreground (-db).
        command=("haproxy", "-W", "-db", "-f", "{directory}/haproxy.cfg"),
    ),
}  # fmt: skip
"""By target."""
