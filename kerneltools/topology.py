# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The CPU topology of the node, from the files under sys/devices/system/cpu/ that start kept in the data directory."""

from __future__ import annotations

import re
from pathlib import Path

from kerneltools import files
from kerneltools.log import Log

GREATEST_CPU = 1 << 20
MOST_CPUS = 1 << 13  # a list that names more is damaged: no Linux has more
CPU_DIRECTORY = ("sys", "devices", "system", "cpu")


def cpu_list(text: str) -> list[int]:
    """The CPUs of a kernel CPU list ("0-2,8"), ascending; raises ValueError on anything else, and on more than MOST_CPUS."""
    cpus: set[int] = set()
    named = 0
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        begin, end = int(first), int(last if dash else first)
        if not 0 <= begin <= end < GREATEST_CPU:
            raise ValueError(f"{part} is no range of CPUs")
        named += end - begin + 1
        if named > MOST_CPUS:
            raise ValueError(f"it names more than {MOST_CPUS} CPUs")
        cpus.update(range(begin, end + 1))
    return sorted(cpus)


def _number(text: str | None) -> str | None:
    """The text of a number that is known: digits, and not the kernel's -1 for what firmware does not tell."""
    return text if text and re.fullmatch("[0-9]{1,9}", text) else None


def read(data_directory: Path, log: Log) -> dict[int, dict[str, str]]:
    """Per CPU number the breakout names package, die, core, thread, cpu (strings), as far as the snapshot tells them.

    `thread` is the position of the CPU among the threads of its core. Kernels before 5.x have no die_id, some Arm
    firmware no package (-1): the only one there is counts as 0. CPUs without a readable topology are left out.
    """
    names: dict[int, dict[str, str]] = {}

    def told(*choice: str) -> str:
        """The first of the files of a CPU that has a word."""
        found = (files.read_or_say(data_directory, log, *CPU_DIRECTORY, name, "topology", of).strip() for of in choice)
        return next((text for text in found if text), "")

    for name in files.entries_or_say(data_directory, log, *CPU_DIRECTORY):
        match = re.fullmatch(r"cpu([0-9]{1,9})", name)
        core = _number(told("core_id")) if match else None
        if not match or core is None:
            continue
        cpu = int(match.group(1))
        package = _number(told("physical_package_id"))
        die = _number(told("die_id"))
        try:
            threads = cpu_list(told("core_cpus_list", "thread_siblings_list") or str(cpu))
            thread = threads.index(cpu)
        except ValueError:
            thread = 0
        names[cpu] = {
            "package": package or "0",
            "die": die or "0",
            "core": core,
            "thread": str(thread),
            "cpu": str(cpu),
        }
    return names
