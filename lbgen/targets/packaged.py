"""A target that is a package: what it is asked for lies in modules of the same names, imported when asked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.behaviour import Behaviour
    from lbgen.targets.inventory import Inventory
    from lbgen.targets.program import Checks, Program
    from lbgen.targets.spec import Door, Output, Part, Row, Secrets
    from lbgen.vocabulary import Refused

T = TypeVar("T")


class Within(Generic[T]):
    """A value of one of the package's modules; rendering does without most of them."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, target: Packaged, owner: type[Packaged]) -> T:
        """Return the value."""
        found: T = target.within(self._module, self._name)
        return found


class Packaged:
    """What the targets `nginx`, `haproxy` and `envoy` answer alike; see `lbgen.targets.spec.Target`."""

    name: str
    strategies: Within[Mapping[str, Callable[[Pool, TargetSettings], Refused | None]]] = Within(
        "pools.strategies", "REFUSALS"
    )
    support: Within[tuple[Row, ...]] = Within("limitations.support", "SUPPORT")
    behaviour: Within[Behaviour] = Within("behaviour", "BEHAVIOUR")
    program: Within[Program] = Within("process.program", "PROGRAM")
    checks: Within[Checks] = Within("process.check", "CHECKS")

    def within(self, module: str, name: str) -> Any:  # noqa: ANN401 - whatever it is
        """Return what a module of the package calls `name`."""
        return getattr(import_module(f"lbgen.targets.{self.name}.{module}"), name)

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what the target's version cannot do for this fleet."""
        found: Iterator[Problem] = self.within("limitations.limits", "limits")(fleet)
        return found

    def read(self, text: str) -> Inventory:
        """Return what a main file says."""
        found: Inventory = self.within("reading.read", "read")(text)
        return found

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        found: tuple[Output, ...] = self.within("outputs", "outputs")(fleet, part, secrets)
        return found

    def understands(self, key: str) -> bool:
        """Return True: what is not refused is rendered."""
        del key
        return True

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield nothing: a request's buffers are released with it."""
        del fleet
        return iter(())

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:
        """Return nothing: it binds what the fleet says."""
        del settings
        return ()
