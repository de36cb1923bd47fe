# SPDX-License-Identifier: Apache-2.0
"""Where the rows of turbostat's table belong, and the breakouts of these places."""

from __future__ import annotations

from typing import NamedTuple

from kerneltools import limits
from kerneltools.frames import Breakouts

# The breakouts that a scope goes down to; a system has none.
BREAKOUTS = {
    "system": (),
    "package": ("package",),
    "core": ("package", "die", "core"),
    "cpu": ("package", "die", "core", "thread", "cpu"),
}


class Where(NamedTuple):
    """Where a row belongs, as far as its topology columns tell; nowhere in particular: the whole machine."""

    package: int | None = None
    die: int | None = None
    core: int | None = None
    cpu: int | None = None

    def beneath(self, above: Where) -> Where:
        """The place of a CPU's row, completed from the row above it where it leaves out what has not changed."""
        if self.cpu is None or (self.package is not None and self.package != above.package):
            return self
        die = self.die if self.die is not None else above.die
        core = self.core if self.core is not None else above.core
        return Where(above.package, die, core, self.cpu)

    def can_attribute(self, scope: str) -> bool:
        """Whether a row of this place tells of which CPU, core or package its value is."""
        return self.cpu is not None or scope == "package" or (scope == "core" and self.core is not None)


MACHINE = Where()


class Places:
    """The breakouts of every place, from the rows, then the topology snapshot; `learn` all places before asking for names."""

    def __init__(self, snapshot: dict[int, dict[str, str]]) -> None:
        self._snapshot = snapshot
        self._learnt: set[Where] = set()
        self._cpus: dict[int, Where] = {}
        self._counted: dict[int, int] = {}  # CPU -> package, where only counting tells
        self._threads: dict[int, int] = {}

    def learn(self, where: Where) -> None:
        """Take what a row says of its CPU; rows under another header may say more."""
        if where in self._learnt:
            return
        self._learnt.add(where)
        limits.check(len(self._learnt), limits.MOST_PLACES, "places")
        if where.cpu is not None:
            known = self._cpus.get(where.cpu, where)
            self._cpus[where.cpu] = Where(*(old if old is not None else new for old, new in zip(known, where)))

    def count_package(self, where: Where, ordinal: int) -> None:
        """Say that by the order of the rows a CPU is of the ordinal-th package."""
        if where.cpu is not None and where.package is None and where.cpu not in self._snapshot:
            self._counted.setdefault(where.cpu, ordinal)

    @property
    def are_packages_counted(self) -> bool:
        """Whether there are several packages, told apart by nothing but the order of the rows."""
        return any(ordinal > 0 for cpu, ordinal in self._counted.items() if self._cpus[cpu].package is None)

    def _told(self, where: Where, name: str) -> str | None:
        """One breakout of a place, from its rows or else the snapshot; None if neither tells."""
        known = self._cpus.get(where.cpu, where) if where.cpu is not None else where
        told = getattr(known, name)
        if told is not None:
            return str(told)
        return self._snapshot.get(where.cpu, {}).get(name) if where.cpu is not None else None

    def package(self, where: Where) -> str:
        """The package; turbostat leaves the column out where it finds only one."""
        return self._told(where, "package") or str(self._counted.get(where.cpu, 0) if where.cpu is not None else 0)

    def _core(self, where: Where) -> tuple[str, str, str | None]:
        return self.package(where), self._told(where, "die") or "0", self._told(where, "core")

    def _thread(self, cpu: int) -> int:
        """The position of a CPU among those of its core."""
        if not self._threads:
            cores: dict[tuple[str, str, str | None], int] = {}
            for known in sorted({*self._cpus, *self._snapshot}):
                core = self._core(Where(cpu=known))
                self._threads[known] = cores.get(core, 0)
                cores[core] = self._threads[known] + 1
        return self._threads[cpu]

    def names(self, where: Where, scope: str) -> Breakouts | None:
        """The breakouts of what has that scope and stands on a row of that place; None where it cannot be attributed.

        A core whose number nothing tells is named by the CPU that its values stand on.
        """
        if not where.can_attribute(scope):
            return None
        package, die, core = self._core(where)
        told = {"package": package, "die": die}
        wanted: tuple[str, ...] = BREAKOUTS[scope]
        if core is not None:
            told["core"] = core
            if where.cpu is not None:
                told["thread"] = str(self._thread(where.cpu))
        elif scope == "core":
            wanted = BREAKOUTS["cpu"]
        if where.cpu is not None:
            told["cpu"] = str(where.cpu)
        return {name: told[name] for name in wanted if name in told}
