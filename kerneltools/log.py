# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What post-processing has to say: losses and remarks, counted by kind, with the first places of each."""

from __future__ import annotations

import sys
from typing import TextIO

PLACES_SHOWN = 3
TEXT_SHOWN = 80


def shown(text: str) -> str:
    """A piece of foreign text as one printable line of bounded length."""
    text = text if len(text) <= TEXT_SHOWN else text[:TEXT_SHOWN] + "…"
    return "".join(c if c.isprintable() else "?" for c in text)


class Log:
    """Counts what was lost (the run's exit code becomes 1) and what is only worth knowing, by kind."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, bool], int] = {}
        self._places: dict[tuple[str, str, bool], list[str]] = {}

    def _count(self, key: tuple[str, str, bool], where: str, times: int) -> None:
        self._counts[key] = self._counts.get(key, 0) + times
        places = self._places.setdefault(key, [])
        if where and len(places) < PLACES_SHOWN:
            places.append(where)

    def lost(self, subtool: str, what: str, where: str = "", times: int = 1) -> None:
        """Something that was there could not be read or published."""
        self._count((subtool, what, True), where, times)

    def note(self, subtool: str, what: str, where: str = "", times: int = 1) -> None:
        """Something a reader of the numbers should know; nothing was lost by it."""
        self._count((subtool, what, False), where, times)

    def add(self, other: Log) -> None:
        """Take what another log has counted."""
        for key, count in other._counts.items():
            self._counts[key] = self._counts.get(key, 0) + count
            places = self._places.setdefault(key, [])
            places += other._places[key][: PLACES_SHOWN - len(places)]

    @property
    def any_loss(self) -> bool:
        """Whether anything was lost so far."""
        return any(lost for _, _, lost in self._counts)

    def lines(self) -> list[str]:
        """One line for each kind, losses as WARNING, remarks as NOTE, in order of appearance."""
        lines = []
        for key, count in self._counts.items():
            subtool, what, lost = key
            line = f"{'WARNING' if lost else 'NOTE'}: {subtool}: {what}"
            if count > 1:
                line += f" ({count} times)"
            if self._places[key]:
                more = ", …" if count > len(self._places[key]) else ""
                line += ": " + ", ".join(self._places[key]) + more
            lines.append(line)
        return lines

    def write(self, stream: TextIO | None = None) -> None:
        """Print what was counted (default: standard output, which the runner keeps beside the metrics)."""
        for line in self.lines():
            print(line, file=stream or sys.stdout)
