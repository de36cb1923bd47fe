# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Whoever reads the metrics must not be able to tell whether a toolbox was there: same rows and descriptors for every recording."""

import lzma
import shutil

import pytest
from perf_output import write_clock, write_topology
from published import without_mark
from test_recordings import RECORDINGS, TOPOLOGY


@pytest.fixture
def deprecated_toolbox(toolbox_home, tmp_path):
    """The same toolbox as an install from before CDMMetrics has it: the module alone."""
    package = tmp_path / "old toolbox" / "python" / "toolbox"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cdm_metrics.py").write_text('POSTPROCESS_DIR = "postprocess"\n')
    shutil.copy(toolbox_home / "python" / "toolbox" / "metrics.py", package)
    return tmp_path / "old toolbox"


def published(directory):
    """What lies in postprocess/, decompressed."""
    return {path.name: lzma.decompress(path.read_bytes()) for path in sorted((directory / "postprocess").glob("metric-data-*"))}


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_toolbox_and_the_built_in_sink_write_the_same(recording, recordings, toolbox_home, deprecated_toolbox, data_dir, run_script):
    shutil.copy(recordings / recording, data_dir / "perf-stat-output.json")
    write_topology(data_dir, TOPOLOGY)
    write_clock(data_dir, begin=0.0, end=3.0)
    written = []
    for home in (None, toolbox_home, deprecated_toolbox):
        done = run_script("kerneltools-post-process", cwd=data_dir, env={} if home is None else {"TOOLBOX_HOME": str(home)})
        assert done.rc == 0, done.out + done.err
        assert "toolbox" not in done.out + done.err, "it was not used"
        written.append(published(data_dir))
    assert set(map(without_mark, written[0])) == {"metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz"}
    assert written[0] == written[1] == written[2]
