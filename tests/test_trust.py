# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""A data directory comes from elsewhere, and root post-processes it: whatever lies in it, nothing else is read, written or removed,
nothing waits for ever or fills the memory, and nothing but plain text reaches the terminal."""

import json
import lzma
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO
from perf_output import EPOCH, block, line, post_process, process, read_back, run_of, write_clock, write_output, write_topology
from published import metric_files, without_mark

from kerneltools import archive, compare, files, inputs, limits, perf_json, rawfile, topology
from kerneltools.log import Log, cell, shown
from kerneltools.subtools import perf_stat

PROGRAM = REPO / "kerneltools-post-process"
MEMORY = 1 << 30  # bytes of address space that a post-processing gets here
ENOUGH = 60  # seconds
TWO = run_of({"instructions": 6, "cycles": 4}, {"instructions": 8, "cycles": 4})
TURBOSTAT = "Time_Of_Day_Seconds\tCPU\tBusy%\n1700000001.0\t-\t5.00\n1700000001.0\t0\t5.00\n"
TOPLEV = "Timestamp,Area,Value,Unit\n1.0,Frontend_Bound,12.0,% Slots\n# 5.1 on it\n"


@pytest.fixture
def elsewhere(tmp_path):
    """A directory outside of the data directory, with a file that nobody may touch."""
    directory = tmp_path / "elsewhere"
    (directory / "sub").mkdir(parents=True)
    (directory / "precious").write_text("keep me\n")
    (directory / "sub" / "metric-data-old.json.xz").write_text("keep me too\n")
    return directory


def untouched(elsewhere):
    there = {str(path.relative_to(elsewhere)): path.read_text() for path in elsewhere.rglob("*") if path.is_file()}
    return there == {"precious": "keep me\n", "sub/metric-data-old.json.xz": "keep me too\n"}


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*arguments, program=PROGRAM):
    """Run the program as a user would, with little memory, and not for ever: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ENOUGH,
        preexec_fn=limited, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def result(directory, name):
    """Where a result of a directory that was post-processed lies; name: without what is of the directory in a metric file's name."""
    prefix, dot, suffix = name.partition(".")
    for there in metric_files(directory):
        if without_mark(there) == prefix:
            prefix = there
    return directory / "postprocess" / f"{prefix}{dot}{suffix}"


# ---- writing


@pytest.mark.parametrize("name", [
    ".kernel.html", "kernel.html", ".post-process-data.json", "post-process-data.json",
    "metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz", "metric-data-perf-stat-2.json",
])  # fmt: skip
def test_a_link_in_the_place_of_a_result_leads_nobody_elsewhere(data_dir, elsewhere, name):
    post_process(data_dir, TWO)
    place = result(data_dir, name)
    place.unlink(missing_ok=True)
    place.symlink_to(elsewhere / "precious")
    done = post_process(data_dir, TWO)
    assert done.rc == 0
    assert untouched(elsewhere)
    assert done.metrics.values("ipc") == [1.5, 2]
    assert not [path for path in (data_dir / "postprocess").iterdir() if path.is_symlink()]


@pytest.mark.parametrize("name", [".kernel.html", ".post-process-data.json", "metric-data-perf-stat.csv.xz", ".partial-perf-stat-abc"])
def test_a_fifo_in_the_place_of_a_result_holds_nobody_up(data_dir, name):
    post_process(data_dir, TWO)
    place = result(data_dir, name)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert run(data_dir)[0] == 0
    assert read_back(data_dir).values("ipc") == [1.5, 2]


@pytest.mark.parametrize("name", ["metric-data-perf-stat.json", "metric-data-perf-stat-0123456789ab.csv.xz", ".partial-perf-stat-abc"])
def test_what_a_link_to_a_directory_leads_to_is_not_removed(data_dir, elsewhere, name):
    (data_dir / "postprocess").mkdir()
    (data_dir / "postprocess" / name).symlink_to(elsewhere / "sub")
    assert post_process(data_dir, TWO).rc == 0
    assert untouched(elsewhere)
    assert not (data_dir / "postprocess" / name).is_symlink()


@pytest.mark.parametrize("name", ["metric-data-x", "metric-data-x.json", ".partial-x"])
def test_a_link_that_is_another_tool_s_stays_and_is_not_followed(data_dir, elsewhere, name):
    (data_dir / "postprocess").mkdir()
    (data_dir / "postprocess" / name).symlink_to(elsewhere / "sub")
    write_output(data_dir, TWO)
    assert run(data_dir)[0] == 0
    assert untouched(elsewhere)
    assert (data_dir / "postprocess" / name).readlink() == elsewhere / "sub"


def test_what_links_in_a_private_directory_lead_to_is_not_removed(data_dir, elsewhere):
    private = data_dir / "postprocess" / ".partial-perf-stat-abc"
    private.mkdir(parents=True)
    (private / "sub").symlink_to(elsewhere / "sub")
    (private / "metric-data-perf-stat.csv.xz").symlink_to(elsewhere / "precious")
    assert post_process(data_dir, TWO).rc == 0
    assert not private.exists()
    assert untouched(elsewhere)


@pytest.mark.parametrize("target", ["sub", "precious", "not there"])
def test_a_postprocess_that_is_a_link_is_refused(data_dir, elsewhere, target):
    (data_dir / "postprocess").symlink_to(elsewhere / target)
    write_output(data_dir, TWO)
    code, out, err = run(data_dir)
    assert (code, out) == (1, "")
    assert err == f"ERROR: {shown(str(data_dir / 'postprocess'))} cannot be written: postprocess is a link, no directory\n"
    assert untouched(elsewhere)
    assert not (elsewhere / "not there").exists()


def test_a_postprocess_that_becomes_a_link_meanwhile_is_not_followed(data_dir, elsewhere, monkeypatch):
    publish_all = inputs.publish_all

    def swapped(run_of_it, output):
        (data_dir / "postprocess").rename(data_dir / "moved")
        (data_dir / "postprocess").symlink_to(elsewhere / "sub")
        return publish_all(run_of_it, output)

    monkeypatch.setattr(inputs, "publish_all", swapped)
    write_output(data_dir, TWO)
    write_clock(data_dir, 0, 2)
    from kerneltools import main  # noqa: PLC0415  (process() reads the results where they are no more)

    assert main.main([str(data_dir)]) == 0
    assert untouched(elsewhere)
    written = {without_mark(path.name) for path in (data_dir / "moved").iterdir()}
    assert {"kernel.html", "post-process-data.json", "metric-data-perf-stat.json.xz"} <= written


def test_a_metric_file_is_new_or_is_not_written(tmp_path, elsewhere):
    for name in ("link", "file"):
        path = tmp_path / f"{name}.csv.xz"
        path.symlink_to(elsewhere / "precious") if name == "link" else path.write_text("there before\n")
        with pytest.raises(FileExistsError):
            archive.open_archive(str(path))
    assert untouched(elsewhere)


# ---- reading


def as_fifo(path, _elsewhere):
    os.mkfifo(path)


def as_zeros(path, _elsewhere):
    path.symlink_to("/dev/zero")


def as_link(path, elsewhere):
    path.symlink_to(elsewhere / "precious")


def as_directory(path, _elsewhere):
    path.mkdir()


def as_socket(path, _elsewhere):
    here = os.open(path.parent, os.O_RDONLY)
    try:
        socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{here}/{path.name}")  # the name is too long otherwise
    finally:
        os.close(here)


TRAPS = {as_fifo: "a FIFO", as_zeros: "a link", as_link: "a link", as_directory: "a directory", as_socket: "a socket"}
CORE_ID = "sys/devices/system/cpu/cpu1/topology/core_id"
SMALL = [
    "kerneltools-clock.txt", "kerneltools-environment.txt", "kerneltools-start-stderrout.txt", "kerneltools-stop-stderrout.txt", CORE_ID,
    "sys/devices/system/cpu/cpu1/topology/core_cpus_list",
]  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("trap", TRAPS)
def test_what_is_no_file_in_the_place_of_a_small_one_is_said_and_not_read(data_dir, elsewhere, name, trap):
    write_output(data_dir, TWO)
    write_clock(data_dir, 0, 2)
    write_topology(data_dir, {1: (0, 0, 1, "1")})
    (data_dir / name).unlink(missing_ok=True)
    trap(data_dir / name, elsewhere)
    code, out, _ = run(data_dir)
    assert code == 1
    last = name.rpartition("/")[2]
    assert f"WARNING: data directory: files that cannot be read: {name} ({last} is {TRAPS[trap]}, no regular file)" in out.splitlines()
    assert "ipc" in out
    assert "keep me" not in out + (data_dir / "postprocess" / "kernel.html").read_text()


@pytest.mark.parametrize("step", ["sys", "sys/devices/system/cpu", "sys/devices/system/cpu/cpu1", "sys/devices/system/cpu/cpu1/topology"])
def test_a_topology_behind_a_link_is_not_that_of_the_run(data_dir, tmp_path, step):
    other = tmp_path / "other"
    write_topology(other, {1: (3, 0, 1, "1")})
    (data_dir / step).parent.mkdir(parents=True, exist_ok=True)
    (data_dir / step).symlink_to(other / step)
    write_output(data_dir, [line(1.0, "page-faults", 5, cpu="1")])
    code, out, _ = run(data_dir)
    assert code == 1
    assert "is a link, no directory)" in out
    assert read_back(data_dir).places("page-faults") == [{"cpu": "1"}]


@pytest.mark.parametrize("name", ["perf-stat-output.json", "toplev-output.csv", "toplev-output.json", "turbostat-stdout.txt"])
@pytest.mark.parametrize("suffix", ["", ".xz"])
@pytest.mark.parametrize("trap", TRAPS)
def test_what_is_no_file_in_the_place_of_an_output_costs_that_subtool(data_dir, elsewhere, name, suffix, trap):
    (data_dir / "turbostat-stdout.txt").write_text(TURBOSTAT)
    write_output(data_dir, TWO)
    (data_dir / name).unlink(missing_ok=True)
    trap(data_dir / (name + suffix), elsewhere)
    code, out, _ = run(data_dir)
    assert code == 1
    subtool = name.partition("-output")[0].partition("-stdout")[0]
    assert f"WARNING: {subtool}: nothing is published: {name}{suffix} is {TRAPS[trap]}, no regular file" in out.splitlines()
    assert "keep me" not in out
    assert ("ipc" in out) == (subtool != "perf-stat")
    assert ("turbostat:cpu-busy-pct" in out) == (subtool != "turbostat")


def test_an_archive_beside_something_that_is_no_file_is_read(data_dir):
    os.mkfifo(data_dir / "perf-stat-output.json")
    write_output(data_dir, TWO, archive=True)
    write_clock(data_dir, 0, 2)
    assert process(data_dir).metrics.values("ipc") == [1.5, 2]


@pytest.mark.parametrize("name", ["kerneltools-clock.txt", "kerneltools-environment.txt", "kerneltools-start-stderrout.txt", CORE_ID])
def test_of_an_endless_file_the_beginning_is_read_and_that_is_said(data_dir, name):
    beginnings = {
        "kerneltools-clock.txt": f"perf-stat begin {EPOCH}\nperf-stat end {EPOCH + 2}\n",
        "kerneltools-environment.txt": "hostname=client-7\n",
        "kerneltools-start-stderrout.txt": "WARNING: toplev: skipped\n",
        CORE_ID: "",
    }
    write_output(data_dir, TWO)
    (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
    with open(data_dir / name, "wb") as file:
        file.write(beginnings[name].encode())
        file.truncate(3 << 30)
    code, out, _ = run(data_dir)
    assert code == 1
    assert f"WARNING: data directory: files of which only the first 4 MiB are read: {name}" in out.splitlines()
    page = (data_dir / "postprocess" / "kernel.html").read_text()
    assert name != "kerneltools-environment.txt" or "client-7" in page
    assert name != "kerneltools-start-stderrout.txt" or "toplev: skipped" in page
    if name == "kerneltools-clock.txt":
        assert read_back(data_dir).samples("ipc") == [(1, 1000, 1.5), (1001, 2000, 2)]


def test_a_million_lines_of_a_small_file_take_neither_memory_nor_time(data_dir):
    write_output(data_dir, TWO)
    (data_dir / "kerneltools-clock.txt").write_text("".join(f"s{number} begin 1700000000\n" for number in range(150_000)))
    (data_dir / "kerneltools-environment.txt").write_text("".join(f"k{number}=1\n" for number in range(400_000)))
    code, out, _ = run(data_dir)
    assert code == 1
    assert "WARNING: kerneltools-clock.txt: what it says beyond 1000 moments is ignored (149000 times): s1000 begin 1700000000" in out
    assert "WARNING: kerneltools-environment.txt: what it says beyond 10000 lines is ignored" in out
    assert (data_dir / "postprocess" / "kernel.html").stat().st_size < 1_000_000


def test_a_list_of_cpus_that_names_all_numbers_over_and_over_ends(data_dir):
    write_output(data_dir, [line(1.0, "page-faults", 5, cpu="1")])
    write_topology(data_dir, {1: (0, 0, 1, "0-1048575," * 100_000 + "1")})
    code, _, _ = run(data_dir)
    assert code == 0
    with pytest.raises(ValueError, match="more than 8192 CPUs"):
        topology.cpu_list("0-8192")
    assert topology.cpu_list("0-8190,1048575")[-1] == 1048575


def test_the_other_direction_of_time_does_not_wait_either(data_dir, elsewhere):
    for trap, kind in TRAPS.items():
        path = data_dir / "kerneltools-environment.txt"
        trap(path, elsewhere)
        window = ("--sample-start", "1796001815300", "--sample-stop", "1796001816400", "--dir", data_dir)
        code, out, err = run(*window, program=REPO / "boot_to_epoch.py")
        assert (code, out) == (1, "")
        assert f"kerneltools-environment.txt is {kind}, no regular file" in err
        path.rmdir() if trap is as_directory else path.unlink()


def open_calls(path):
    """The lines of a module by which it comes to files itself."""
    ways = r"(?<![\w.])open\(|\bos\.open\(|\.open\(|read_text\(|read_bytes\(|write_text\(|write_bytes\(|os\.fdopen\(|lzma\.LZMAFile"
    return [text.strip() for text in path.read_text(encoding="utf-8").splitlines() if re.search(ways, text)]


def test_there_is_no_other_way_to_a_file():
    own = {"catalogue.py": 1, "perf_event.py": 1}  # tables of this package
    found = {}
    for path in (*sorted((REPO / "kerneltools").rglob("*.py")), REPO / "boot_to_epoch.py"):
        lines = open_calls(path)
        if path.name != "files.py" and len(lines) > own.get(path.name, 0):
            found[path.name] = lines
    assert found == {}
    assert len(open_calls(REPO / "kerneltools" / "files.py")) > 5  # it does find them


# ---- comparing


@pytest.fixture
def two_runs(tmp_path):
    directories = tmp_path / "a", tmp_path / "b"
    for directory in directories:
        directory.mkdir()
        post_process(directory, TWO)
    return directories


@pytest.mark.parametrize("name", ["metric-data-perf-stat.json.xz", "metric-data-perf-stat.csv.xz", "post-process-data.json"])
@pytest.mark.parametrize("trap", TRAPS)
def test_comparing_reads_files_only(two_runs, elsewhere, name, trap):
    a, b = two_runs
    place = result(b, name)
    place.unlink()
    trap(place, elsewhere)
    code, out, err = run("--compare", a, b)
    assert code == 1
    assert f"is {TRAPS[trap]}, no regular file" in out + err
    assert "keep me" not in out + err


def test_comparing_follows_no_postprocess_that_is_a_link(two_runs, tmp_path):
    a, b = two_runs
    (b / "postprocess").rename(tmp_path / "moved")
    (b / "postprocess").symlink_to(tmp_path / "moved")
    code, out, err = run("--compare", a, b)
    assert (code, out) == (1, "")
    assert err == f"ERROR: {shown(str(b))}: postprocess is a link, no directory\n"


@pytest.mark.parametrize("name", ["../../elsewhere/sub/metric-data-old", "/etc/passwd", "metric-data-/../x", "", 5, ["metric-data-x"]])
def test_comparing_takes_no_way_out_of_the_directory_for_a_metric_file(two_runs, elsewhere, name):
    a, b = two_runs
    result(b, "post-process-data.json").write_text(json.dumps({"periods": [{"metric-files": [name]}]}))
    code, out, err = run("--compare", a, b)
    assert (code, out) == (1, "")
    assert err.startswith(f"ERROR: {shown(str(b))}: its post-process-data.json does not tell the metric files (")
    assert untouched(elsewhere)


@pytest.mark.parametrize("trap", [as_fifo, as_zeros])
def test_comparing_waits_for_no_environment(two_runs, elsewhere, trap):
    a, b = two_runs
    trap(b / "kerneltools-environment.txt", elsewhere)
    code, out, _ = run("--compare", a, b)
    assert code == 1
    assert out.startswith("WARNING: B, data directory: files that cannot be read: kerneltools-environment.txt (")


def test_descriptors_and_rows_without_end_are_not_read_to_the_end(two_runs):
    a, b = two_runs
    descriptors, rows = ([result(of, f"metric-data-perf-stat.{kind}.xz") for of in two_runs] for kind in ("json", "csv"))
    with lzma.open(descriptors[1], "wb", preset=0) as file:
        for _ in range(300):
            file.write(b"[" * (1 << 20))
    with lzma.open(rows[1], "wb", preset=0) as file:
        file.write(b"0,1,2,3\n" * 10_000_000)
    code, out, _ = run("--compare", a, b)
    assert code == 1
    assert f"WARNING: B, {metric_files(b)[0]}: its descriptors cannot be read: it is larger than 128 MiB" in out
    for path in descriptors:
        with lzma.open(path, "wt") as file:
            file.write("[" * 100_000)
    assert "its descriptors cannot be read: it is nested too deeply" in run("--compare", a, b)[1]
    shutil.copy(rows[1], rows[0])
    for path in descriptors:
        with lzma.open(path, "wt") as file:
            file.write(json.dumps([{"idx": 0, "desc": {"type": "ipc"}, "names": {}}]))
    assert "of its rows only the first 2000000 are read" in run("--compare", a, b)[1]


def test_a_metric_file_with_thousands_of_series_is_compared(tmp_path):
    """Its descriptors are one line of 3 MB."""
    for name in ("a", "b"):
        (tmp_path / name / "postprocess").mkdir(parents=True)
        descriptors = [
            {"idx": idx, "desc": {"type": "ipc", "default-aggregation": "avg"}, "names": {"cpu": str(idx), "counter": "x" * 150}}
            for idx in range(15_000)
        ]
        (tmp_path / name / "postprocess" / "metric-data-perf-stat.json").write_text(json.dumps(descriptors))
        named = json.dumps({"periods": [{"metric-files": ["metric-data-perf-stat"]}]})
        (tmp_path / name / "postprocess" / "post-process-data.json").write_text(named)
        rows = "".join(f"{idx},1,1000,{idx}\n" for idx in range(15_000))
        (tmp_path / name / "postprocess" / "metric-data-perf-stat.csv").write_text(rows)
    metrics = compare.MetricsOfRun(tmp_path / "a")
    assert metrics.damaged == []
    assert metrics.numbers == {"ipc": 15_000}
    assert metrics.folded["ipc"].mean == 7499.5


# ---- the terminal

ESCAPE = "\x1b[2J\x1b]0;owned\x07"
FORGED = "\nERROR: all is lost\nipc  1  1  99  99  99\r"
BIDI = "\u202e\u2066\u200f"
HEBREW = "\u05d0\u0661"
MARKS = "i\u0336\u0336p\u20ddc"
HOSTILE = f"x{ESCAPE}{FORGED}{BIDI}{HEBREW}{MARKS}\u2028y"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\u0590-\u08ff\u0300-\u036f\u20d0-\u20ff\ufeff]")


def assert_harmless(text):
    assert HARMFUL.findall(text) == []
    assert not re.search("^(ERROR: all is lost|ipc  1  1  99)", text, re.MULTILINE)


def hostile_perf():
    records = []
    for second in (1.0, 2.0, 4.0):
        records += [line(second, HOSTILE, 5, unit=HOSTILE), line(second, "page-faults", HOSTILE), line(second, "a", 5, unit="x  9  9  9")]
        records += [line(second, f"x_0/{HOSTILE}/", 7), line(second, HOSTILE, 5, cpu=HOSTILE), HOSTILE, f'{{"interval" : "{HOSTILE}"}}']
    return [*records, line(3.0, HOSTILE, 5), line(5.0, HOSTILE, "-5")]


def hostile_metrics():
    """perf's metric groups, as toplev has them."""
    return [
        json.dumps({"interval": second, "event": HOSTILE, "counter-value": "1.0", "metric-value": value, "metric-unit": unit, **place})
        for second in (1.0, 2.0)
        for value, unit, place in (("1.0", f"%  {HOSTILE}", {}), (HOSTILE, "%  retiring", {}), ("1.0", "%  retiring", {"socket": HOSTILE}))
    ]


def hostile_toplev():
    quoted = HOSTILE.replace("\n", " ").replace("\r", " ")
    areas, values, units = ("Retiring", f"Retiring.{quoted}"), ("5", quoted), ("% s", quoted)
    rows = [f"1.0,{area},{value},{unit}" for area in areas for value in values for unit in units]
    return [f"{quoted}", "Timestamp,Area,Value,Unit", *rows, f"1.0,Retiring,5,%,{quoted}", *HOSTILE.split("\n"), "# end"]


def hostile_turbostat():
    quoted = HOSTILE.replace("\n", " ").replace("\r", " ")
    head = f"Time_Of_Day_Seconds\tCPU\tBusy%\tC1\t{quoted}\tBzy_MHz\tx{quoted}"
    rows = [f"1700000001.0\t{place}\t{value}\t1\t1\t{quoted}\t1" for place in ("-", "0", quoted) for value in ("5.00", quoted)]
    return [quoted, "Time_Of_Day_Seconds\tCPU\tBusy%\tBzy_MHz", *rows, head, *rows, *HOSTILE.split("\n")]


HOSTILE_OUTPUTS = {
    "perf-stat-output.json": hostile_perf,
    "toplev-output.json": hostile_metrics,
    "toplev-output.csv": hostile_toplev,
    "turbostat-stdout.txt": hostile_turbostat,
}


@pytest.mark.parametrize("name", HOSTILE_OUTPUTS)
def test_what_an_output_says_reaches_the_terminal_as_plain_text(data_dir, name):
    (data_dir / name).write_text("\n".join(HOSTILE_OUTPUTS[name]()) + "\n", encoding="utf-8")
    for small in SMALL[:4]:
        (data_dir / small).write_text(f"WARNING: {HOSTILE}\nhostname={HOSTILE}\n{HOSTILE}={HOSTILE}\n{HOSTILE} begin 1\n", encoding="utf-8")
    code, out, err = run(data_dir)
    assert code == 1
    assert err == ""
    assert_harmless(out)
    page = (data_dir / "postprocess" / "kernel.html").read_text(encoding="utf-8")
    assert HARMFUL.findall(page) == []
    embedded = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert HARMFUL.findall(json.dumps(embedded, ensure_ascii=False)) == []
    assert "ERROR: all is lost" not in re.split(r"<li[^>]*>", page)


def test_a_line_of_the_table_is_one_line_with_as_many_columns(data_dir):
    write_output(data_dir, [line(1.0, "sched:x  9  9  9", 5, unit=f"m{FORGED}s")])
    write_clock(data_dir, 0, 1)
    _, out, _ = run(data_dir)
    table = [re.split("  +", text) for text in out.splitlines() if "sched" in text]
    assert table == [["sched:x 9 9 9", "m?ERROR: all is lost?ipc 1 1 99 99 99?s", "1", "1", "5", "5", "5"]]


def test_a_comparison_is_plain_text(tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "kerneltools-environment.txt").write_text(f"{HOSTILE}{value}={HOSTILE}\nperf={HOSTILE}{value}\n", encoding="utf-8")
        records = [line(float(second), HOSTILE, value, unit=HOSTILE, cpu=str(cpu)) for second in (1, 2) for cpu in range(2)]
        post_process(directory, [*records, line(2.0, f"only-{name}{HOSTILE}", 1, cpu="0")])
    code, out, err = run("--compare", tmp_path / "a", tmp_path / "b")
    assert (code, err) == (0, "")
    assert "only-a" in out
    assert_harmless(out)
    named = result(tmp_path / "b", "post-process-data.json")
    for document in (f'{{"{HOSTILE}', f'{{"periods": {{"{ESCAPE}": 0}}}}', json.dumps({"periods": [{"metric-files": [HOSTILE]}]})):
        named.write_text(document, encoding="utf-8")
        code, out, err = run("--compare", tmp_path / "a", tmp_path / "b")
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert_harmless(err)


def test_what_the_recording_s_clock_is_called_is_plain_text(data_dir):
    (data_dir / "kerneltools-environment.txt").write_text(f"perf_record_clock={HOSTILE[:8]}\n", encoding="utf-8")
    code, out, err = run("--to-epoch", "4053.101", "--dir", data_dir, program=REPO / "boot_to_epoch.py")
    assert (code, out) == (1, "")
    assert err.startswith("ERROR: samples were stamped with x?[2J?]0, and how far")


def test_a_traceback_is_plain_text(data_dir, monkeypatch, capfd):
    def fail(*_):
        raise ValueError(HOSTILE + "x" * 5000)

    monkeypatch.setattr(perf_stat, "Frames", fail)
    write_output(data_dir, TWO)
    from kerneltools import main  # noqa: PLC0415  (process() takes a traceback for a failure)

    assert main.main([str(data_dir)]) == 1
    out, err = capfd.readouterr()
    assert "Traceback (most recent call last):" in err
    assert HARMFUL.findall(out + err) == []
    assert max(map(len, err.splitlines())) <= 1000


def test_words_of_any_language_stay_what_they_are():
    assert shown("Zürich, 東京, Ελλάδα; 5 µs ± 2 %") == "Zürich, 東京, Ελλάδα; 5 µs ± 2 %"
    assert shown(f"a{BIDI}b{HEBREW}c") == "a???b??c"
    assert cell(" a   b\tc ") == "a b?c"


# ---- bounds


def assert_limit(data_dir, subtool, what):
    """Nothing of that subtool, and all of the others."""
    code, out, err = run(data_dir)
    assert (code, err) == (1, "")
    said = f"WARNING: {subtool}: nothing is published: more than {what}, the limit: no machine has so many, the output is damaged or forged"
    assert said in out.splitlines()
    published = {without_mark(path.name) for path in (data_dir / "postprocess").iterdir()}
    others = {"perf-stat", "toplev", "turbostat"} - {subtool}
    assert {name for name in published if name.startswith((".partial", f"metric-data-{subtool}"))} == set()
    assert {f"metric-data-{other}.json.xz" for other in others} <= published


@pytest.fixture
def whole_run(data_dir):
    """What each subtool leaves; a test puts one of them right over it."""
    write_output(data_dir, TWO)
    (data_dir / "turbostat-stdout.txt").write_text(TURBOSTAT)
    (data_dir / "toplev-output.csv").write_text(TOPLEV)
    return data_dir


def compressed(data_dir, name, pieces):
    (data_dir / name).unlink()
    with lzma.open(data_dir / f"{name}.xz", "wt", preset=0) as file:
        file.writelines(pieces)


def test_a_million_events_or_cpus_are_refused_at_once(whole_run):
    compressed(whole_run, "perf-stat-output.json", (line(1.0, f"e{number}", 1) + "\n" for number in range(270_000)))
    assert_limit(whole_run, "perf-stat", "262144 events and places")
    with lzma.open(whole_run / "perf-stat-output.json.xz", "wt", preset=0) as file:
        file.writelines(line(1.0, "cycles", 1, cpu=str(number)) + "\n" for number in range(270_000))
    assert_limit(whole_run, "perf-stat", "262144 events and places")


def test_a_million_places_of_unusual_records_are_refused(whole_run):
    record = '{"interval" : 1.0, "cluster" : "%d", "event" : "e", "counter-value" : "1"}\n'
    compressed(whole_run, "perf-stat-output.json", (record % number for number in range(270_000)))
    assert_limit(whole_run, "perf-stat", "262144 events and places")


def test_a_million_nodes_are_refused(whole_run):
    rows = (f"1.0,A.n{number},5.0,% Slots\n" for number in range(270_000))
    compressed(whole_run, "toplev-output.csv", ["Timestamp,Area,Value,Unit\n", *rows])
    assert_limit(whole_run, "toplev", "262144 nodes and places")


def test_a_million_cpus_of_turbostat_are_refused(whole_run):
    rows = (f"1700000001.0\t{number}\t5.00\n" for number in range(70_000))
    compressed(whole_run, "turbostat-stdout.txt", ["Time_Of_Day_Seconds\tCPU\tBusy%\n", *rows])
    assert_limit(whole_run, "turbostat", "65536 places")


def test_a_thousand_headers_are_refused(whole_run):
    headers = (f"Time_Of_Day_Seconds\tCPU\tBusy%\tBzy_MHz\tx{number}\n1700000001.0\t-\t5.00\t6\t1\n" for number in range(1100))
    compressed(whole_run, "turbostat-stdout.txt", headers)
    assert_limit(whole_run, "turbostat", "1000 headers")


def test_as_many_series_as_nine_hundred_columns_on_three_hundred_cpus_are_refused(whole_run):
    head = "\t".join(["Time_Of_Day_Seconds", "CPU", *(f"C{number}%" for number in range(900))])
    row = "\t5.00" * 900
    rows = (f"1700000001.0\t{cpu}{row}\n" for cpu in range(300))
    compressed(whole_run, "turbostat-stdout.txt", [head + "\n", *rows])
    assert_limit(whole_run, "turbostat", "262144 series")


@pytest.mark.parametrize("name", ["perf-stat-output.json", "toplev-output.csv", "turbostat-stdout.txt"])
def test_a_name_that_the_index_would_refuse_costs_its_line_only(data_dir, name):
    outputs = {
        # in an interval of which a line is lost, no event is published whose records may add up
        "perf-stat-output.json": "\n".join([*TWO, line(2.0, "e" * 8001, 1), line(2.0, "cycles", 1), line(3.0, "e" * 8000, 1)]),
        "toplev-output.csv": TOPLEV.replace("# 5", f"1.0,{'e' * 8001},1,%\n1.0,{'e' * 8000},1,%\n# 5"),
        "turbostat-stdout.txt": TURBOSTAT + TURBOSTAT.replace("01.0", "02.0").replace("Busy%", f"Busy%\tC{'1' * 8001}%"),
    }
    (data_dir / name).write_text(outputs[name] + "\n" * name.endswith("json"))
    code, out, _ = run(data_dir)
    assert code == 1
    assert "nothing is published" not in out
    published = read_back(data_dir, "perf-stat|toplev|turbostat").types
    assert {"perf-stat-output.json": "ipc", "toplev-output.csv": "toplev:frontend-bound"}.get(name, "turbostat:cpu-busy-pct") in published
    assert max(map(len, published)) == {"perf-stat-output.json": 8000, "toplev-output.csv": 8007}.get(name, len("turbostat:cpu-busy-pct"))


def test_names_that_are_many_and_long_are_refused(whole_run):
    compressed(whole_run, "perf-stat-output.json", (line(1.0, f"{number:07d}" * 1000, 1) + "\n" for number in range(10_000)))
    assert_limit(whole_run, "perf-stat", "67108864 characters in all names")


@pytest.mark.parametrize("which", ["perf-stat", "toplev"])
def test_an_interval_without_end_is_refused(data_dir, monkeypatch, which):
    monkeypatch.setattr(limits, "MOST_RECORDS", 1000)
    monkeypatch.setattr(inputs, "cores", lambda: 1)
    if which == "perf-stat":
        write_output(data_dir, [line(1.0, "e", 1)] * 1002)
    else:
        (data_dir / "toplev-output.csv").write_text("Timestamp,Area,Value,Unit\n" + "1.0,Retiring,5.0,% Slots\n" * 1002)
    done = process(data_dir)
    assert done.rc == 1
    assert f"{which}: nothing is published: more than 1000 " in done.log
    assert " in one interval, the limit: " in done.log


def test_intervals_without_end_are_refused(data_dir, monkeypatch):
    monkeypatch.setattr(limits, "MOST_INTERVALS", 100)
    assert process_of_intervals(data_dir, 100).rc == 0
    done = process_of_intervals(data_dir, 101)
    assert done.rc == 1
    assert "perf-stat: nothing is published: more than 100 intervals, the limit: " in done.log


def process_of_intervals(data_dir, number):
    return post_process(data_dir, [record for second in range(1, number + 1) for record in block(float(second), {"page-faults": 1})])


def test_as_much_as_a_very_large_machine_has_is_published(data_dir):
    """1024 CPUs and 30 events: 30 720 counters, of which 17 408 are of ratios and rates, too."""
    write_output(data_dir, [line(1.0, f"event-{event}", cpu, cpu=str(cpu)) for cpu in range(1024) for event in range(30)])
    write_clock(data_dir, 0, 1)
    code, out, _ = run(data_dir)
    assert code == 0
    assert re.search(r"^event-29 +1024 +1024 +511.5 +0 +1023$", out, re.MULTILINE)


def test_remarks_are_bounded():
    log, other = Log(), Log()
    for number in range(2000):
        log.lost("perf-stat", f"kind {number}")
        other.note("toplev", f"kind {number}")
    log.add(other)
    assert len(log.lines()) == 1002
    assert "WARNING: perf-stat: further kinds of remarks (1000 times)" in log.lines()
    assert "NOTE: toplev: further kinds of remarks (2000 times)" in log.lines()


BLANK = {"line feeds": "\n" * 65536, "blanks": " \t\r\n" * 16384}


@pytest.mark.parametrize("name", HOSTILE_OUTPUTS)
@pytest.mark.parametrize("what", BLANK)
def test_blank_lines_cost_little_and_hide_no_line(tmp_path, name, what):
    """64 MiB of them, with a broken line behind, whose number is told."""
    path = tmp_path / f"{name}.xz"
    with lzma.open(path, "wt", preset=0) as file:
        for _ in range(1024):
            file.write(BLANK[what])
        file.write("{ torn, 1\n")
    lines = 1024 * BLANK[what].count("\n")
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    raw = rawfile.RawFile(path)
    assert [found for found in raw.numbered() if not found[1].isspace()] == [(lines + 1, "{ torn, 1", 1)]
    if name == "perf-stat-output.json":
        log = Log()
        assert list(perf_json.Reader(raw, "perf-stat", log).readings()) == []
        assert log.lines() == [f"WARNING: perf-stat: unreadable lines: line {lines + 1}: '{{ torn, 1'"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - began < 5


@pytest.mark.parametrize(("name", "kind"), [
    ("perf-stat-output.json", "WARNING: perf-stat: unreadable lines (8388608 times): line 1: 'x', "),
    ("toplev-output.csv", "WARNING: toplev: unreadable lines (8388608 times): line 1 (no time at its beginning): 'x', "),
])  # fmt: skip
def test_garbage_over_and_over_is_counted_by_line_and_costs_little(data_dir, name, kind):
    with lzma.open(data_dir / f"{name}.xz", "wt", preset=0) as file:
        for _ in range(256):
            file.write("x\n" * 32768)
    code, out, _ = run(data_dir)
    assert code == 1
    assert kind in out


def test_garbage_in_a_table_is_counted_by_line(data_dir):
    (data_dir / "turbostat-stdout.txt").write_text(TURBOSTAT + "garbage\n" * 1_000_000 + "\t?\n" * 1_000_000 + "1700000002.0\t-\t6.00\n")
    code, out, _ = run(data_dir)
    assert code == 1
    assert "NOTE: turbostat: lines between the rows that are none (1000000 times): line 4: 'garbage'" in out
    assert "WARNING: turbostat: unreadable lines (1000000 times): line 1000004: '?\\?'" in out.replace("'??'", "'?\\?'")
    assert re.search("^turbostat:cpu-busy-pct ", out, re.MULTILINE)


@pytest.mark.parametrize("name", HOSTILE_OUTPUTS)
@pytest.mark.parametrize("what", ["one line", "deep nesting"])
def test_a_line_without_end_is_not_kept(data_dir, name, what):
    with lzma.open(data_dir / f"{name}.xz", "wb", preset=0) as file:
        for _ in range(300):
            file.write((b"x" if what == "one line" else b"[") * (1 << 20))
    code, _, _ = run(data_dir)
    assert code in (0, 1)


def test_a_repeated_record_is_as_many_records(data_dir):
    """Lines alike that follow each other are taken once, and counted as often: of one event in one place the first counts."""
    twice = json.dumps({"interval": 1.0, "event": "x_1/e/", "counter-value": "5", "unit": "", "pcnt-running": 100.0})
    assert [number for number, _, _ in rawfile.numbered("a\n\na\nb\n", 7)] == [7, 10]
    assert list(rawfile.numbered("a\n\na\nb", 7)) == [(7, "a", 2), (10, "b", 1)]
    done = post_process(data_dir, [twice, twice])
    assert done.metrics.values("x/e/") == [5]


def test_files_below_a_name_are_listed_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(files.Refused, match="more than 3 entries"):
        files.entries(tmp_path.parent, tmp_path.name)
    (tmp_path / "d").unlink()
    assert sorted(files.entries(tmp_path.parent, tmp_path.name)) == ["a", "b", "c"]
    assert isinstance(Path(files.path_of(0, tmp_path)), Path)
