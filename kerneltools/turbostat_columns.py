# SPDX-License-Identifier: Apache-2.0
"""The columns of turbostat's table that the catalogue knows, and what their fields say.

A row of the catalogue names the columns that give a metric, in its formula: "scope:NAME,NAME". The scope (cpu, core,
package, system) is the column's own, wherever its values stand; where it differs between machines both are named
("core|package"). A NAME may hold a placeholder (PLACEHOLDERS), which the type repeats: "Pkg%pc<N>". Where a column is in
another unit than its metric, what makes one of the other follows it: "GHz*1000".
"""

from __future__ import annotations

import re
from typing import NamedTuple, Union

from kerneltools.catalogue import Metric
from kerneltools.frames import Value

# <state> is an idle state's name as the kernel's idle driver gives it.
PLACEHOLDERS = {"<N>": "[0-9]{1,3}", "<state>": "POLL|C[0-9][0-9A-Za-z_]*|[A-Za-z]+ idle"}
KNOWN_TEXTS = 1 << 16  # whose values are kept

_PLACEHOLDER = re.compile("(" + "|".join(PLACEHOLDERS) + ")")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?")
# "104**" is power that turbostat suspects, as its counter may have wrapped
_UNMEASURED = re.compile(r"[-+]?nan|[-+]?inf|\(neg\)|[0-9]*(?:\.[0-9]*)?\*+(?:\.\*+)?|-")


class Column(NamedTuple):
    """A column of the catalogue: its name, its metric, the type its values are published as, what it may be a property of,
    and by what its values are multiplied."""

    name: str
    metric: Metric
    type: str
    scopes: tuple[str, ...]
    factor: int


class Columns:
    """The columns that the catalogue knows."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._patterns: list[tuple[re.Pattern[str], Metric, tuple[str, ...], int]] = []
        for metric in metrics:
            scopes, _, names = metric.field.partition(":")
            for spelling in names.split(","):
                name, _, factor = spelling.partition("*")
                self._patterns.append((re.compile(_name_pattern(name)), metric, tuple(scopes.split("|")), int(factor or 1)))
        self._known: dict[str, Column | None] = {}

    def find(self, name: str) -> Column | None:
        """The column of that name; None where the catalogue has none."""
        if name not in self._known:
            self._known[name] = self._match(name)
        return self._known[name]

    def _match(self, name: str) -> Column | None:
        for pattern, metric, scopes, factor in self._patterns:
            match = pattern.fullmatch(name)
            if match:
                held = match.group(1).lower().replace("_", "-").replace(" ", "-") if match.groups() else ""
                return Column(name, metric, _PLACEHOLDER.sub(held, metric.type), scopes, factor)
        return None


def _name_pattern(name: str) -> str:
    """The regular expression of a column's name in the catalogue; placeholders are groups."""
    return "".join(f"({PLACEHOLDERS[part]})" if part in PLACEHOLDERS else re.escape(part) for part in _PLACEHOLDER.split(name))


def is_unmeasured(text: str) -> bool:
    """Whether a field holds what turbostat prints for a value that it does not have."""
    return _UNMEASURED.fullmatch(text.strip()) is not None


def is_printed(text: str) -> bool:
    """Whether a field holds a value or what turbostat prints for one that it does not have, rather than nothing or garbage."""
    return _NUMBER.fullmatch(text.strip()) is not None or is_unmeasured(text)


class Values(dict[str, Union[Value, None]]):
    """The values of fields by their texts, None where they hold no number; whole numbers are integers.

    odd: whether a field that was asked for holds something else than a number. Such are not kept, so it is told each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.odd = False

    def __missing__(self, text: str) -> Value | None:
        stripped = text.strip()
        if stripped and not _NUMBER.fullmatch(stripped):
            self.odd = True
            return None
        if len(self) >= KNOWN_TEXTS:
            self.clear()
        value = None if not stripped else float(stripped) if "." in stripped else int(stripped)
        self[text] = value
        return value
