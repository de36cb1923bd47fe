# SPDX-License-Identifier: Apache-2.0
"""The unit of flow: an interval's frame, the values of all series of a subtool in one interval.

A subtool's module reads its output and gives frames; publication, metric files, summary and curves take frames and
nothing else. Values stand in the order in which their series were registered, None where a series has none in that
interval; the list of series only grows, so a frame may be shorter than the list is later.
"""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

from kerneltools import limits
from kerneltools.catalogue import Bound, Metric
from kerneltools.clock import Interval
from kerneltools.log import Log, shown

Value = Union[int, float]
Breakouts = dict[str, str]

SIGNIFICANT_DIGITS = 7
_ROUNDED = f"%.{SIGNIFICANT_DIGITS}g".__mod__


def significant(value: float) -> float:
    """A derived value, rounded to the digits that are published."""
    return float(_ROUNDED(value))


def all_significant(values: Iterable[float]) -> list[float]:
    """The same of each of many."""
    return list(map(float, map(_ROUNDED, values)))


class Frame(NamedTuple):
    """One interval and the values of the series in it, in their order; None is no value."""

    interval: Interval
    values: Sequence[Value | None]


class Series(NamedTuple):
    """One series: the row of the catalogue that it is of, the type it is published under, its unit, its breakouts, and what
    the collector calls it."""

    metric: Metric
    type: str
    unit: str
    names: Breakouts
    told: str = ""

    @property
    def bound(self) -> Bound:
        """Between which values all of it must lie."""
        return self.metric.bound if self.names else self.metric.bound_of_all

    def __str__(self) -> str:
        return shown(self.type) + "".join(f" {name}={shown(value)}" for name, value in self.names.items())


def admits(series: Series, interval: Interval, value: Value, log: Log, subtool: str, told: str = "") -> bool:
    """Whether a value is one that a machine can have, by the catalogue's bound for its unit; counted in the log if not.

    told: the collector's name of it, where it is another than that of the series.
    """
    if series.bound.admits(value):
        return True
    least, greatest = series.bound
    name, most = shown(told or series.told or series.type), f"{greatest:.10g} {series.unit}".rstrip()
    where = f"{value} ({series}, at {interval.end / 1000:.3f})"
    log.lost(subtool, f"{name}: values below {least:.10g} or above {most} are not published", where)
    return False


class SeriesList:
    """The series of one output in their order; it only grows, to limits.MOST_SERIES."""

    def __init__(self) -> None:
        self.all: list[Series] = []
        self._characters = 0  # of all names
        self._numbers: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._breakouts: dict[tuple[tuple[str, str], ...], Breakouts] = {}  # ten thousand series have those of some hundred places

    def __len__(self) -> int:
        return len(self.all)

    def number(self, metric: Metric, names: Breakouts, metric_type: str = "", unit: str | None = None, told: str = "") -> int:
        """The place in every frame of the series of that type and these breakouts, which is registered where it is new.

        Where the metric is open (<event>), metric_type is the type to publish under and unit what the collector says it
        is in. told: the collector's own name of it, for messages. Raises limits.Exceeded where there are too many.
        """
        published_type = metric_type or metric.type
        key = published_type, tuple(sorted(names.items()))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            limits.check(number + 1, limits.MOST_SERIES, "series")
            lengths = [len(published_type), *map(len, names.values())]
            limits.check(max(lengths), limits.LONGEST_TYPE, "characters in one name")
            self._characters += sum(lengths)
            limits.check(self._characters, limits.MOST_CHARACTERS, "characters in all names")
            shared = self._breakouts.setdefault(tuple(names.items()), names)
            self.all.append(Series(metric, published_type, metric.unit if unit is None else unit, shared, told))
        return number


def items(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that gives the items of a sequence at these places."""
    first, count = (places[0], len(places)) if places else (0, 0)
    if list(places) == list(range(first, first + count)):
        return itemgetter(slice(first, first + count))
    return itemgetter(*places)


class Spool:
    """What was read of an output, kept on disk in its order until all of it is known: an output is read once.

    It holds tuples of one length of numbers, texts, None, and tuples and lists of these, which nobody may change; what is
    equal to the same item of the tuple before is kept once. The file has no name (where the file system cannot have that, one
    that begins with `prefix` for a moment) and goes with the process. Raises OSError where the disk is full.
    """

    def __init__(self, directory: Path, prefix: str = "") -> None:
        self._directory, self._prefix = directory, prefix
        self._file = tempfile.TemporaryFile(prefix=prefix, dir=directory)  # noqa: SIM115  (open as long as this is)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def another(self) -> Spool:
        """A further one in the same directory."""
        return Spool(self._directory, self._prefix)

    def extend(self, contents: Iterable[tuple[Any, ...]]) -> None:
        """Add tuples behind all that is there."""
        before: tuple[Any, ...] = ()
        for content in contents:
            packed = marshal.dumps(tuple([... if new == old else new for new, old in zip_longest(content, before)]))
            self._file.write(len(packed).to_bytes(8, "little") + packed)
            before = tuple(content)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """All that was added, in that order."""
        self._file.flush()
        self._file.seek(0)
        before: tuple[Any, ...] = ()
        while size := self._file.read(8):
            content = marshal.loads(self._file.read(int.from_bytes(size, "little")))
            before = tuple([old if new is ... else new for new, old in zip_longest(content, before)])
            yield before
