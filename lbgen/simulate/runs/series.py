"""Requests in flight at each server over time, in bounded memory. Times are seconds."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.simulate.servers.server import SimulatedServer

MARKS = 256
"""Most marks that are kept; when there are more, every second one goes."""


class Series:
    """Marks of each server's integral of requests in flight over time, from which averages follow.

    The integrals, not the numbers: between two marks nothing is missed, however far apart they are.
    """

    __slots__ = ("_marks", "_servers", "_spacing", "next_mark")

    def __init__(self, servers: Sequence[SimulatedServer]) -> None:
        self._servers = servers
        self._marks: list[tuple[float, array[float]]] = []
        self._spacing = 0.0
        self.next_mark = 0.0
        """Nothing needs to be marked before."""

    def mark(self, now: float) -> None:
        """Keep the integrals up to now."""
        integrals = array("d", [one.busy_s + one.in_flight * now for one in self._servers])
        self._marks.append((now, integrals))
        if len(self._marks) > MARKS:
            del self._marks[1::2]
            self._spacing = 2 * (now - self._marks[0][0]) / MARKS
        self.next_mark = now + self._spacing

    def averages(self, points: int) -> tuple[tuple[float, ...], ...]:
        """Return for each server its average requests in flight in so many equal stretches of the run."""
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return ()
        begin, end = self._marks[0][0], self._marks[-1][0]
        step = (end - begin) / points
        cuts = self._integrals([begin + step * number for number in range(points)] + [end])
        return tuple(
            tuple(max(0.0, (after - before) / step) for before, after in pairwise(line))
            for line in zip(*cuts, strict=True)
        )

    def _integrals(self, times: Sequence[float]) -> list[list[float]]:
        """Return every server's integral at ascending times within the run, straight between the marks."""
        found, place, last = [], 0, len(self._marks) - 2
        for time in times:
            while place < last and self._marks[place + 1][0] < time:
                place += 1
            (early, before), (late, after) = self._marks[place], self._marks[place + 1]
            share = (time - early) / (late - early) if late > early else 1.0
            found.append([a + share * (b - a) for a, b in zip(before, after, strict=True)])
        return found
