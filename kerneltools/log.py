# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What post-processing has to say: losses and remarks, counted by kind, with the first places of each."""

from __future__ import annotations

import sys
import unicodedata
from typing import TextIO

PLACES_SHOWN = 3
MOST_KINDS = 1000  # of losses and remarks; each is a line
TEXT_SHOWN = 80
LONGEST_TRACE = 1000  # characters of a line of a traceback


def shown(text: str) -> str:
    """A piece of foreign text as one printable line of bounded length."""
    text = text if len(text) <= TEXT_SHOWN else text[:TEXT_SHOWN] + "…"
    return printable(text, "?")


def printable(text: str, instead: str) -> str:
    """Foreign text without what moves the cursor, breaks the line, changes the direction of writing or draws over its neighbours."""
    return text if text.isascii() and text.isprintable() else "".join(c if _stands_alone(c) else instead for c in text)


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    is_mark = unicodedata.category(character).startswith("M")
    return character.isprintable() and not is_mark and unicodedata.bidirectional(character) not in ("R", "AL", "AN")


def trace() -> str:
    """Where the exception at hand came from."""
    import traceback  # noqa: PLC0415  (it takes as long to load as a small run to read)

    return traceback.format_exc()


def print_trace() -> None:
    """Print where the exception at hand came from; what it says may be foreign text."""
    for line in trace().splitlines():
        print(printable(line[:LONGEST_TRACE], "?"), file=sys.stderr)


def cell(text: str) -> str:
    """Foreign text for a table whose columns two blanks separate."""
    return " ".join(shown(text).split())


class Log:
    """Counts what was lost (the run's exit code becomes 1) and what is only worth knowing, by kind."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, bool], int] = {}
        self._places: dict[tuple[str, str, bool], list[str]] = {}

    def _count(self, key: tuple[str, str, bool], where: str, times: int) -> None:
        if key not in self._counts and len(self._counts) >= MOST_KINDS:
            key = (key[0], "further kinds of remarks", key[2])
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
            if key not in self._counts and len(self._counts) >= MOST_KINDS:
                self._count(key, "", count)
                continue
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
