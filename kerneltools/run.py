# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""One run's data directory: what every subtool's module may ask about it."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cached_property
from itertools import islice
from pathlib import Path

from kerneltools import catalogue, clock, files, topology
from kerneltools.catalogue import Metric
from kerneltools.log import Log

ENVIRONMENT = "kerneltools-environment.txt"
MOST_FACTS = 10_000  # that it tells; start writes some dozens
MARK_DIGITS = 12  # of a thousand directories, two have one mark with a probability of 2e-9


class Run:
    """A data directory, with its clock file, CPU topology and the log that collects what is to be said about it."""

    def __init__(self, directory: Path, log: Log) -> None:
        self.directory = directory
        self.log = log
        self.clock = clock.read_clock(directory, log)

    def read_ahead(self) -> None:
        """Read what several subtools need, once for all of them: what is to be said of it stands in this run's log alone."""
        assert self.topology is not None
        assert self.environment is not None

    @classmethod
    def like(cls, run: Run, log: Log) -> Run:
        """The same run, with another log."""
        other = cls.__new__(cls)
        vars(other).update(vars(run), log=log)
        return other

    @cached_property
    def topology(self) -> dict[int, dict[str, str]]:
        """Breakout names per CPU (kerneltools.topology.read)."""
        return topology.read(self.directory, self.log)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What start noted about the machine and the collection (kerneltools-environment.txt), by its keys."""
        text = files.read_or_say(self.directory, self.log, ENVIRONMENT)
        facts = dict(islice((line.split("=", 1) for line in text.splitlines() if "=" in line), MOST_FACTS + 1))
        if len(facts) > MOST_FACTS:
            self.log.lost(ENVIRONMENT, f"what it says beyond {MOST_FACTS} lines is ignored")
        return facts

    @cached_property
    def mark(self) -> str:
        """Hex digits that no other data directory of a run has, and that this one has at each post-processing.

        Made of where it lies, which alone tells byte-equal directories of one controller apart, and of what start noted, which
        tells runs apart that were brought to one path after another.
        """
        noted = [sorted(self.environment.items()), sorted(self.clock.items())]
        text = json.dumps([os.path.realpath(self.directory), *noted])
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:MARK_DIGITS]

    def file_id(self, subtool: str) -> str:
        """What a subtool's metric files are called by: `perf-stat-3f81c09a5e27`.

        rickshaw-gen-docs names a file of documents by the metric file and by the thread that made it, without the host: where
        a thread makes those of two hosts, files of one name would overwrite each other, and a host's metrics would be lost.
        """
        return f"{subtool}-{self.mark}"

    @cached_property
    def catalogue(self) -> list[Metric]:
        """All metrics of all subtools."""
        return catalogue.load()

    def metrics(self, subtool: str) -> list[Metric]:
        """The metrics of one subtool, in the catalogue's order."""
        return [metric for metric in self.catalogue if metric.subtool == subtool]
