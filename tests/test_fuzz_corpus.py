# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Every input that the fuzzing found worth keeping (tests/fuzz/corpus), through the whole post-processor: no exception costs a sample,
and every row is one that the indexer takes."""

from unittest import mock

import pytest
from conftest import REPO
from published import CLOCK, ENVIRONMENT, OUTPUTS, clock_file, post_process, topology_files, write_files

from kerneltools import rawfile

CORPUS = REPO / "tests" / "fuzz" / "corpus"
INPUTS = sorted(str(path.relative_to(CORPUS)) for path in CORPUS.glob("*/*"))
ARCHIVE = OUTPUTS["perf-stat"] + ".xz"
# with all that belongs beside an output, and with nothing
BESIDE = {
    "whole": {
        ENVIRONMENT: b"cpu_vendor=GenuineIntel\nturbostat_interval=1\nperf_stat_events_counted=cycles:u,cycles:k,instructions\n",
        **topology_files({cpu: (0, 0, cpu // 2, f"{cpu & ~1}-{cpu | 1}") for cpu in range(4)}),
    },
    "alone": {},
}


def test_the_corpus_is_small_and_of_every_parser():
    assert {name.partition("/")[0] for name in INPUTS} == {*OUTPUTS, "archive"}
    assert len(INPUTS) < 200
    assert sum((CORPUS / name).stat().st_size for name in INPUTS) < 200_000


@pytest.mark.parametrize("name", INPUTS)
def test_a_kept_input_is_published_without_an_exception(name, tmp_path):
    parser = name.partition("/")[0]
    content = (CORPUS / name).read_bytes()
    subtool = {"archive": "perf-stat", "toplev-json": "toplev"}.get(parser, parser)
    for beside, files in BESIDE.items():
        directory = tmp_path / beside
        clock = {CLOCK: clock_file(subtool, -0.1, 3)} if files else {}
        write_files(directory, {**files, **clock, OUTPUTS.get(parser, ARCHIVE): content})
        whole = post_process(directory)
        with mock.patch.object(rawfile, "READ_BYTES", 61):
            in_pieces = post_process(directory)
        if parser != "archive":  # what damage costs an archive depends on what was read of it at once
            assert in_pieces == whole
