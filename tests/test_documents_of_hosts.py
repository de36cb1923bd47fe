# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Every host's metrics are indexed: no document file of one host may have the name of another's.

rickshaw-gen-docs makes a file of documents for each metric file, `<thread>-<metric file>-docs.ndjson.xz` in one directory for
the whole run, with 32 threads at most. It has no host in its name, so where a thread comes to metric files of one name
twice, the first host's documents are gone, without a word. Beyond 32 metric files threads come to several; below, they may,
since an idle one is taken before a new one is made.
"""

import contextlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from published import metric_files, without_mark

from kerneltools import main, subtools
from kerneltools.log import Log
from kerneltools.run import Run

HOSTS = 8
FILES = 13  # of each host


def post_process(directory):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main.main([str(directory)]) == 0, out.getvalue()
    return metric_files(directory)


def write_host(directory, events=FILES):
    """A data directory of so many events, each counted once (1, 2, 3, ...)."""
    directory.mkdir(parents=True)
    # without pcnt-running, which would make further series
    records = [{"interval": 1.0, "counter-value": f"{number}.0", "unit": "", "event": f"event-{number}"} for number in range(1, events + 1)]
    (directory / "perf-stat-output.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    return directory


@pytest.fixture
def one_series_a_file(monkeypatch):
    monkeypatch.setattr("kerneltools.metric_files.MOST_ROWS", 1)


@pytest.fixture
def run_directory(tmp_path, one_series_a_file):
    """A run as rickshaw lays it out, of hosts whose data directories are the same byte for byte and have no clock file."""
    base = tmp_path / "run--2026-01-02_03:04:05_UTC"
    for host in range(1, HOSTS + 1):
        directory = write_host(base / "run" / "tool-data" / "profiler" / f"remotehosts-{host}-kernel-1" / "kernel")
        assert len(post_process(directory)) == FILES
    return base


def indexed(directory):
    """The metric files of a data directory by rickshaw's own pattern."""
    found = (re.match(r"(metric-data-\S+)\.json", name) for name in os.listdir(directory / "postprocess"))
    return {match[1] for match in found if match}


def data_directories(base):
    return sorted((base / "run" / "tool-data" / "profiler").glob("*/kernel"))


def test_no_hosts_documents_have_the_name_of_anothers(run_directory):
    """Whichever thread makes them: here one makes all."""
    names = [f"1-{name}-docs.ndjson.xz" for directory in data_directories(run_directory) for name in indexed(directory)]
    assert len(names) == HOSTS * FILES == 104
    assert len(set(names)) == 104


@pytest.mark.parametrize("threads", [1, 32])
def test_rickshaw_makes_the_documents_of_every_host(threads, run_directory, toolbox_home):
    home = Path(os.environ.get("RICKSHAW_HOME", ""))
    if not (home / "rickshaw-gen-docs.py").is_file():
        pytest.skip("RICKSHAW_HOME names no rickshaw with rickshaw-gen-docs.py")
    pytest.importorskip("jsonschema")
    run = {
        "rickshaw-run": {"schema": {"version": "2020.03.18"}}, "run-id": "6c9d4ee1-50f0-4d7b-a1b5-d3d4a0f1a3b2", "email": "x", "name": "x",
        "test-order": "s", "benchmark": "x", "endpoints": [], "iterations": [],
    }  # fmt: skip
    (run_directory / "run" / "rickshaw-run.json").write_text(json.dumps(run))
    command = [sys.executable, home / "rickshaw-gen-docs.py", "--base-run-dir", run_directory, "--max-jobs", str(threads)]
    variables = {**os.environ, "TOOLBOX_HOME": str(toolbox_home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    described, values = {}, {}
    for path in (run_directory / "run" / "opensearch").glob("*-metric-data-*"):
        for document in map(json.loads, lzma.decompress(path.read_bytes()).splitlines()):
            if "metric_data" in document:
                values[document["metric_desc"]["metric_desc-uuid"]] = document["metric_data"]["value"]
            elif "metric_desc" in document:
                of = document["metric_desc"]
                described[of["names"]["csid"], of["type"]] = of["metric_desc-uuid"]
    assert {place: values[uuid] for place, uuid in described.items()} == {
        (f"remotehosts-{host}-kernel-1", f"event-{number}"): str(number) for host in range(1, 9) for number in range(1, 14)
    }


def test_the_names_are_the_same_at_each_post_processing(tmp_path, one_series_a_file, monkeypatch):
    directory = write_host(tmp_path / "run" / "kernel", 3)
    (directory / "kerneltools-clock.txt").write_text("perf-stat begin 1700000000.0\nperf-stat end 1700000001.0\n")
    (directory / "kerneltools-environment.txt").write_text("kernel=6.12\nhostname=a\n")
    names = post_process(directory)
    first, *further = names
    assert re.fullmatch(r"metric-data-perf-stat-[0-9a-f]{12}", first)
    assert further == [f"{first}-2", f"{first}-3"]
    assert post_process(directory) == names
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert post_process(tmp_path / "link" / "kernel") == names
    monkeypatch.chdir(directory)
    assert post_process(".") == names
    assert indexed(directory) == set(names)


def test_a_run_that_was_moved_has_its_metrics_once(tmp_path, one_series_a_file):
    """Under the names that fit its new place; what indexing had written beside the former ones is gone with them."""
    before = post_process(write_host(tmp_path / "here", 2))
    (tmp_path / "here" / "postprocess" / f"{before[0]}.json").write_text("[]")
    shutil.move(tmp_path / "here", tmp_path / "there")
    after = post_process(tmp_path / "there")
    assert list(map(without_mark, after)) == ["metric-data-perf-stat", "metric-data-perf-stat-2"]
    assert set(before) & set(after) == set()
    assert indexed(tmp_path / "there") == set(after)


@pytest.mark.parametrize(
    ("name", "content"),
    [("kerneltools-clock.txt", "perf-stat begin 1700000000.5\n"), ("kerneltools-environment.txt", "hostname=b\n")],
)
def test_runs_that_lie_at_one_path_one_after_the_other_differ_by_what_start_noted(tmp_path, name, content):
    """As where each is brought into a container at the same place."""
    directory = write_host(tmp_path / "kernel", 1)
    names = post_process(directory)
    (directory / name).write_text(content)
    assert post_process(directory) != names


@pytest.mark.parametrize("subtool", subtools.names())
def test_a_name_is_short_even_of_the_thousandth_file(subtool, tmp_path):
    assert len(f"metric-data-{Run(tmp_path, Log()).file_id(subtool)}-999") < 40
