# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The CPU topology of the node, from the files under sys/devices/system/cpu/ that start kept in the data directory."""

from __future__ import annotations

import re
from pathlib import Path

MOST_CPUS = 1 << 20  # a list that names more is damaged
CPU_DIRECTORY = Path("sys/devices/system/cpu")


def cpu_list(text: str) -> list[int]:
    """The CPUs of a kernel CPU list ("0-2,8"), ascending; raises ValueError on anything else, and above MOST_CPUS."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        begin, end = int(first), int(last if dash else first)
        if not 0 <= begin <= end < MOST_CPUS:
            raise ValueError(f"{part} is no range of CPUs")
        cpus.update(range(begin, end + 1))
    return sorted(cpus)


def _number(text: str | None) -> str | None:
    """The text of a number that is known: digits, and not the kernel's -1 for what firmware does not tell."""
    return text if text and re.fullmatch("[0-9]{1,9}", text) else None


def _read(directory: Path, *names: str) -> str | None:
    """The first of the files that can be read, stripped."""
    for name in names:
        try:
            return (directory / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
    return None


def read(data_directory: Path) -> dict[int, dict[str, str]]:
    """Per CPU number the breakout names package, die, core, thread, cpu (strings), as far as the snapshot tells them.

    `thread` is the position of the CPU among the threads of its core. Kernels before 5.x have no die_id, some Arm
    firmware no package (-1): the only one there is counts as 0. CPUs without a readable topology are left out.
    """
    names: dict[int, dict[str, str]] = {}
    for cpu_directory in (data_directory / CPU_DIRECTORY).glob("cpu[0-9]*"):
        match = re.fullmatch(r"cpu([0-9]+)", cpu_directory.name)
        topology = cpu_directory / "topology"
        core = _number(_read(topology, "core_id"))
        if not match or core is None:
            continue
        cpu = int(match.group(1))
        package = _number(_read(topology, "physical_package_id"))
        die = _number(_read(topology, "die_id"))
        try:
            threads = cpu_list(_read(topology, "core_cpus_list", "thread_siblings_list") or str(cpu))
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
