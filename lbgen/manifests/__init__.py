"""The files of a target, packed for what runs it (Kubernetes, Compose), and what watches it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.manifests.order import Made, Order

FORMS: Mapping[str, str] = {
    "compose": "compose",
    "configmap": "kubernetes",
    "kustomize": "kubernetes",
    "prometheus": "watching.prometheus",
    "grafana": "watching.grafana",
}
"""The module of each form that ``render --as`` takes; the function in it has the form's name."""
WATCHING = frozenset({"prometheus", "grafana"})
"""The forms that watch a target: they stand in folders of their own beside its files."""


def packed(order: Order) -> Made:
    """Return the files of an order in its form; the module is imported now."""
    module = import_module(f"lbgen.manifests.{FORMS[order.form]}")
    made: Made = getattr(module, order.form)(order)
    return made
