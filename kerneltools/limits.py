# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""How much an output can hold before it is taken for damaged or forged: far more than any machine gives, and less than what
takes the controller's memory.

Where one of these is exceeded, nothing of that output is published, not even what stands before: whatever wrote it was not
the collector, or the file is not what the collector wrote. The other subtools are published. A single line that is too long costs
no more than itself, for a damaged file may well have one.
"""

from __future__ import annotations

MOST_SERIES = 1 << 18  # of an output; 2048 CPUs with 128 metrics each
MOST_PLACES = 1 << 16  # CPUs, cores, packages of an output; Linux has at most 8192 CPUs
MOST_HEADERS = 1000  # different ones of an output
MOST_INTERVALS = 10_000_000  # of an output; more than a day of the shortest ones, 10 ms
MOST_RECORDS = 1 << 20  # of one interval; some share a series
MOST_TEXT = 1 << 28  # characters of one interval's records; four times what MOST_SERIES of them take
MOST_CHARACTERS = 1 << 26  # of all names
LONGEST_NAME = 8000  # OpenSearch refuses a document with a keyword of 32766 bytes, of which a character has at most four
LONGEST_TYPE = 8100  # the same with what a type has before it


class Exceeded(Exception):
    """There is more of something than any machine has; the message says of what, and the limit."""


def check(number: int, most: int, what: str) -> None:
    """Raise Exceeded where there are more than `most` of them."""
    if number > most:
        raise Exceeded(f"more than {most} {what}, the limit: no machine has so many, the output is damaged or forged")


class Distinct:
    """Different names, one or several words each, as many as there may be."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._characters = 0
        self.seen: set[tuple[str, ...]] = set()

    def add(self, names: set[tuple[str, ...]]) -> None:
        """Take names, known ones or new ones; raises Exceeded where they become too many, or one is too long."""
        new = names - self.seen
        if not new:
            return
        for name in new:
            check(max(map(len, name), default=0), LONGEST_TYPE, "characters in one name")
            self._characters += sum(map(len, name))
        self.seen |= new
        check(len(self.seen), self._most, self._what)
        check(self._characters, MOST_CHARACTERS, "characters in all names")
