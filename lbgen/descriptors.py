"""How many connections and files a process may have open."""

import resource


def raise_descriptor_limit() -> None:
    """Allow as many as the system does: the usual soft limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
