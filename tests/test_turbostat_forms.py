# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""turbostat's blocks taken at once say what they say row by row, whatever is wrong with them."""

import os
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from perf_output import process

from kerneltools import turbostat_table

HEADER = "Time_Of_Day_Seconds\tPackage\tCore\tCPU\tBusy%\tIRQ\tCoreTmp\tPkgWatt"
NO_PACKAGE = HEADER.replace("Package\t", "")
# another column in front of the last; the same but for its order
OTHER = HEADER.replace("PkgWatt", "CorWatt\tPkgWatt")
CPUS = ((0, 0, 0), (0, 0, 2), (0, 1, 1), (1, 0, 3))  # package, core, CPU


def block(number, header, with_header):
    """The lines of an interval."""
    stamp = f"17600001{number:02d}"
    lines = [header] * with_header + [f"{stamp}.000100\t-\t-\t-\t{number}.50\t{number}\t40\t300.25"]
    firsts = {(0, 0, 0): f"\t4{number % 10}\t200.50", (0, 1, 1): "\t41", (1, 0, 3): f"\t4{number % 10}\t100.25"}
    for cpu, place in enumerate(CPUS):
        where = "\t".join(map(str, place))
        lines.append(f"{stamp}.0000{cpu}0\t{where}\t{number}.{cpu}0\t{100 * cpu + number}{firsts.get(place, '')}")
    if header == NO_PACKAGE:
        lines = [line if line == header else "\t".join(line.split("\t")[:1] + line.split("\t")[2:]) for line in lines]
    return lines


OF = turbostat_table.Form.of
TEXTS = st.sampled_from(
    ["", "-", "-nan", "(neg)", "***", "0", "7", "1e5", "99999999999999999999999", "0.10", " 3 ", "x", "\0", "1760000107.000050", HEADER]
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["drop", "double", "swap", "field", "shorten", "lengthen", "insert", "cut"]), st.integers(0, 80), TEXTS),
    max_size=6,
)


def changed(lines, changes):
    """The lines with what the changes say done to them."""
    for what, where, text in changes:
        if not lines:
            return lines
        place = where % len(lines)
        fields = lines[place].split("\t")
        if what == "drop":
            del lines[place]
        elif what == "double":
            lines.insert(place, lines[place])
        elif what == "swap":
            lines[place], lines[0] = lines[0], lines[place]
        elif what == "insert":
            lines.insert(place, text)
        elif what == "field":
            fields[where // 7 % len(fields)] = text
        elif what == "shorten":
            del fields[-1]
        elif what == "lengthen":
            fields.append(text)
        elif what == "cut":
            lines[place] = lines[place][: where % (len(lines[place]) + 1)]
        if what in ("field", "shorten", "lengthen"):
            lines[place] = "\t".join(fields)
    return lines


def published(text, forms):
    """Samples and log."""
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(turbostat_table.Form, "of", OF if forms else no_form):
        output = Path(directory) / "turbostat-stdout.txt"
        output.write_text(text)
        os.utime(output, (1_760_000_200, 1_760_000_200))
        done = process(Path(directory), "turbostat")
        return done.metrics.series, [line for line in done.out.splitlines() if line.startswith(("NOTE", "WARNING"))]


def no_form(block):
    return None


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from([HEADER, HEADER, NO_PACKAGE, OTHER]), st.integers(0, 9), st.sampled_from([True, True, False]), CHANGES, st.booleans()
)
def test_blocks_at_once_say_what_their_rows_say(header, other_from, repeated, changes, is_cut):
    lines = []
    for number in range(8):
        is_other = number >= other_from and header == OTHER
        lines += block(number, OTHER if is_other else HEADER if header == OTHER else header, repeated or number in (0, other_from))
    text = "\n".join(changed(lines, changes)) + ("" if is_cut else "\n")
    assert published(text, True) == published(text, False)


def test_forms_are_used():
    taken = []
    at_once = turbostat_table.Table._alike

    def note(*arguments):
        taken.append(at_once(*arguments))
        return taken[-1]

    with mock.patch.object(turbostat_table.Table, "_alike", note):
        published("\n".join(line for number in range(8) for line in block(number, HEADER, True)) + "\n", True)
    assert len([one for one in taken if one is not None]) == 2 * 6  # both passes, all but the first and the second
