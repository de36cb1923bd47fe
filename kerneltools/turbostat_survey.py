# SPDX-License-Identifier: Apache-2.0
"""What the whole of turbostat's output tells, learnt block by block on the way to the spool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kerneltools import limits
from kerneltools.clock import Times
from kerneltools.frames import Spool
from kerneltools.turbostat_columns import Column, is_printed
from kerneltools.turbostat_header import Fields, Header, Kind
from kerneltools.turbostat_places import Places
from kerneltools.turbostat_table import Block

FEW = 3  # times from which a median means something

Spooled = tuple[object, ...]
Carried = tuple[str, str]  # a type and the scope of its columns


class Survey:
    """What all blocks of an output tell.

    intervals, times: of the blocks; carried: the types, with their scopes, that stand on rows that tell the place,
    rather than in the summary alone; outside: the columns that give no metric; split_scope: what a column that differs
    between machines is of, and why_split what told so; has_split: whether there is one.
    """

    def __init__(self, places: Places, vendor_scope: str) -> None:
        self.places = places
        self.intervals = 0
        self.times = Times(origin=None)
        self.carried: set[Carried] = set()
        self.outside: dict[str, None] = {}
        self.split_scope = vendor_scope
        self.why_split = "the CPU's vendor" if vendor_scope else ""
        self.has_split = False
        self._early: list[float] = []
        self._kinds: list[Kind] = []  # by their numbers
        # of the last block: the kinds of its rows, and where among its fields those are that may still tell something
        self._last: list[Kind] = []
        self._sought: list[tuple[int, Carried]] = []
        self._split: list[tuple[int, Kind]] = []

    def spooled(self, blocks: Iterable[Block]) -> Iterator[Spooled]:
        """The blocks as a spool keeps them."""
        for block in blocks:
            self.intervals += 1
            if block.time is not None:
                if len(self._early) < FEW:
                    self._early.append(block.time)
                self.times.add(block.time)
            is_new = block.kinds is not self._last
            if is_new:
                self._learn(block)
            found = {carried for position, carried in self._sought if is_printed(block.texts[position])}
            if found:
                self.carried |= found
                self._sought = [one for one in self._sought if one[1] not in found]
            if not self.split_scope:
                self._settle_split(block.texts)
            numbers = [kind.number for kind in block.kinds] if is_new else None
            yield block.time, block.line, block.lines_lost, numbers, block.lines, block.texts

    def blocks(self, spool: Spool) -> Iterator[Block]:
        """The blocks that a spool keeps."""
        kinds: list[Kind] = []
        for time, line, lines_lost, numbers, lines, texts in spool:
            if numbers is not None:
                kinds = [self._kinds[number] for number in numbers]
            yield Block(time, line, lines_lost, kinds, lines, texts)

    def _learn(self, block: Block) -> None:
        """Take the rows' places and columns."""
        self._last = block.kinds
        for kind in block.kinds:
            if kind.number < 0:
                kind.number = len(self._kinds)
                self._kinds.append(kind)
                limits.check(len(self._kinds), limits.MOST_SERIES, "kinds of rows")
                if kind.identity is not None:
                    self.places.learn(kind.where)
                self.outside.update(dict.fromkeys(kind.header.outside))
                self.has_split = self.has_split or kind.header.first_split is not None
        cells = list(enumerate((kind, column) for kind in block.kinds for column in kind.columns))
        cells = [(place, cell) for place, cell in cells if cell[0].identity is not None]
        self._split = [(place, kind) for place, (kind, column) in cells if len(column.scopes) > 1]
        self._sought = [
            (place, (column.type, scope))
            for place, (kind, column) in cells
            for scope in column.scopes
            if scope != "system" and (column.type, scope) not in self.carried and kind.where.can_attribute(scope)
        ]
        of_packages = {kind for place, (kind, column) in cells if column.scopes == ("package",) and is_printed(block.texts[place])}
        self._count_packages(block.kinds, of_packages)

    def _count_packages(self, kinds: list[Kind], of_packages: set[Kind]) -> None:
        """Number the packages by the rows that hold package values, where there is no Package column."""
        ordinal = -1
        for kind in kinds:
            if kind.identity is not None:
                if kind.where.package is not None:
                    return
                ordinal += kind in of_packages
                self.places.count_package(kind.where, max(ordinal, 0))

    def _settle_split(self, texts: Fields) -> None:
        """Take a column of "core|package" for the cores' where it stands on more rows than there are packages."""
        kinds = {kind for place, kind in self._split if is_printed(texts[place])}
        if len(kinds) > len({self.places.package(kind.where) for kind in kinds}):
            self.split_scope = "core"
            self.why_split = "it stands on several rows of a package"

    def scope(self, column: Column, header: Header) -> str:
        """What the column is a property of. turbostat prints a core's columns before those of a package."""
        if len(column.scopes) == 1:
            return column.scopes[0]
        if not self.split_scope:
            split, package = header.first_split, header.first_package
            self.split_scope = "core" if split is not None and package is not None and split < package else "package"
            self.why_split = "its position among the columns"
        return self.split_scope

    @property
    def first(self) -> float | None:
        """The first time that is to be believed."""
        return next((time for time in self._early if time not in self.times.outliers), None)

    @property
    def typical(self) -> float:
        """The usual distance of two times in seconds, 0.0 where there are not two."""
        if len(self.times) < FEW:
            return self.times.last - (self.first or 0.0) if len(self.times) > 1 else 0.0
        return self.times.typical
