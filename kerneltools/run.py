# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""One run's data directory: what every subtool's module may ask about it."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from pathlib import Path

from kerneltools import catalogue, clock, files, topology
from kerneltools.catalogue import Metric
from kerneltools.log import Log

ENVIRONMENT = "kerneltools-environment.txt"
MOST_FACTS = 10_000  # that it tells; start writes some dozens


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
    def catalogue(self) -> list[Metric]:
        """All metrics of all subtools."""
        return catalogue.load()

    def metrics(self, subtool: str) -> list[Metric]:
        """The metrics of one subtool, in the catalogue's order."""
        return [metric for metric in self.catalogue if metric.subtool == subtool]
