"""What one Envoy configuration is put together from: the fleet, its settings, and what the parts need."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lbgen.model import Secret

if TYPE_CHECKING:
    from lbgen.model import Fleet, HeaderValue, Pool, TargetSettings
    from lbgen.targets.envoy.language.words import Node
    from lbgen.targets.spec import Secrets

KEYS_SCRIPT, BODY_SCRIPT, EXTERNAL_SCRIPT, SUBPATH_SCRIPT = "secrets/keys", "body", "external", "subpath"
"""The scripts' files, without endings: YAML that Envoy watches, or Lua beside one file of everything."""
METRICS_FILE = "secrets/metrics.htpasswd"


class Assembly:
    """The fleet and what its parts have in common.

    `split`: listeners, routes, clusters and endpoints are files of their own, which Envoy watches. Else
    everything stands in one file.
    """

    def __init__(self, fleet: Fleet, secrets: Secrets, *, split: bool) -> None:
        self.fleet = fleet
        self.settings: TargetSettings = fleet.target("envoy")
        self.split = split
        self._secrets = secrets
        self._resolved = 0
        self._places: dict[str, str] = {}
        self.aggregates: dict[str, tuple[str, str]] = {}
        """Name of a cluster that stands for two pools, the second for when the first is down."""

    def resolve(self, secret: Secret) -> str:
        """Return a secret's value, and remember that the file in the making holds one."""
        self._resolved += 1
        return self._secrets.resolve(secret)

    def value(self, value: HeaderValue) -> str:
        """Return a text, or the value of a secret."""
        return self.resolve(value) if isinstance(value, Secret) else value

    def took_secrets(self) -> bool:
        """Tell whether a secret was asked for since the last call."""
        taken, self._resolved = self._resolved, 0
        return bool(taken)

    def path(self, name: str) -> str:
        """Return where a file of the fleet's or of ours is: absolute, or below the target's folder."""
        return str(PurePosixPath(self.settings.directory) / name)

    def source(self, name: str) -> Node:
        """Return the word for a file that Envoy watches: it is read when another takes its place."""
        path = PurePosixPath(self.path(name))
        watched = {"path": str(path), "watched_directory": {"path": str(path.parent)}}
        return {"resource_api_version": "V3", "path_config_source": watched}

    def pool_file(self, pool: Pool) -> str:
        """Return the file with a pool's servers."""
        return f"endpoints/{pool.name}.yaml"

    def file(self, path: str, *, hidden: bool) -> str:
        """Return where a file stands that may hold secrets; remember it for who names it."""
        place = f"secrets/{path}" if hidden else path
        self._places[path] = place
        return place

    def place(self, path: str) -> str:
        """Return where `file` put it."""
        return self._places.get(path, path)

    def cluster_for(self, pool: str, when_down: str | None) -> str:
        """Return the cluster of a pool, or of the pool and the one that takes over."""
        if not when_down or when_down == pool:
            return pool
        name = f"{pool}|{when_down}"
        self.aggregates[name] = (pool, when_down)
        return name
