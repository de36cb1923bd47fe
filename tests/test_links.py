# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""start and stop write to no other place than the data directory, whatever lies in it, and nothing that lies in it makes them wait."""

import json
import lzma
import os
import shutil

import pytest
from collection import START_LOG, STOP_LOG, clock, log_lines, played, processes_with, recorded, wait_until
from conftest import start_time
from test_start import failed
from test_sysfs_trace import plain  # noqa: F401  (a fixture)
from test_trace_cmd import trace_cmd  # noqa: F401  (a fixture)

QUICK = ["--subtools=perf-stat", "--interval=0.05", "--perf-stat-events=cycles,page-faults"]
OUTPUT = "perf-stat-output.json"
PATIENCE = 20  # seconds; what waits at a FIFO never ends


class Trap:
    """Something that lies where a file of a run should: make(path) puts it there, sprung() tells whether it was written through."""

    def __init__(self, kind, tmp_path):
        self.kind, self.elsewhere, self.made = kind, tmp_path / "elsewhere", []
        if kind == "link":
            self.elsewhere.mkdir()
            (self.elsewhere / "file").write_text("precious\n")

    def make(self, path):
        path.unlink(missing_ok=True)
        self.made.append(path)
        if self.kind == "link":
            path.symlink_to(self.elsewhere / "file")
        elif self.kind == "dangling link":
            path.symlink_to(self.elsewhere)
        elif self.kind == "fifo":
            os.mkfifo(path)
        elif self.kind == "zeros":
            path.symlink_to("/dev/zero")

    def sprung(self):
        if self.kind == "link":
            return [file.name for file in self.elsewhere.iterdir()] != ["file"] or (self.elsewhere / "file").read_text() != "precious\n"
        return os.path.lexists(self.elsewhere)


@pytest.fixture(params=["link", "dangling link", "fifo", "zeros"])
def trap(request, tmp_path, run_script):
    """One kind of trap; gone before run_script's own end looks into the records, and would wait there."""
    trap = Trap(request.param, tmp_path)
    yield trap
    for path in trap.made:
        if not path.is_file() or path.is_symlink():
            path.unlink(missing_ok=True)


# ---- start

WRITTEN_BY_START = [
    START_LOG, STOP_LOG, "perf-stat-stderrout.txt", "kerneltools-environment.txt", "kerneltools-pids.txt", "kerneltools-clock.txt",
    "kerneltools-kept.txt", OUTPUT, f"{OUTPUT}.xz",
]  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN_BY_START)
def test_start_writes_through_nothing_that_lies_where_its_files_go(name, trap, run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    trap.make(data_dir / name)
    mark = {"KT_MARK": str(tmp_path)}
    failed(run_script("kerneltools-start", *QUICK, env=mark, timeout=PATIENCE), name)
    assert not trap.sprung()
    assert calls.all() == []
    assert processes_with("KT_MARK", str(tmp_path)) == []


@pytest.mark.parametrize("name", ["kerneltools-pids.txt.new", "kerneltools-clock.txt.new"])
def test_start_does_not_write_through_the_name_of_an_unfinished_file(name, trap, run_script, data_dir, stand_in, tmp_path):
    """It rewrites its record where one of several collectors ends at once."""
    played(stand_in, tmp_path)
    stand_in("turbostat", "case $* in --version) echo turbostat 1 ;; *true) ;; *) exit 1 ;; esac")
    trap.make(data_dir / name)
    done = run_script("kerneltools-start", "--subtools=perf-stat,turbostat", *QUICK[1:], timeout=PATIENCE)
    assert done.rc == 0
    assert [collector.subtool for collector in recorded(data_dir)] == ["perf-stat"]
    assert not trap.sprung()


TOPOLOGY = "sys/devices/system/cpu/cpu0/topology"


@pytest.mark.parametrize("depth", range(1, 7))
def test_start_copies_no_topology_through_a_link_in_place_of_a_directory(depth, run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    parts = TOPOLOGY.split("/")
    elsewhere.joinpath(*parts[depth:]).mkdir(parents=True)
    (elsewhere.joinpath(*parts[depth:]) / "core_id").write_text("precious\n")
    before = sorted(elsewhere.rglob("*"))
    link = data_dir.joinpath(*parts[:depth])
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    failed(run_script("kerneltools-start", *QUICK), "/".join(parts[:depth]), "is a link")
    assert sorted(elsewhere.rglob("*")) == before
    assert (elsewhere.joinpath(*parts[depth:]) / "core_id").read_text() == "precious\n"
    assert calls.all() == []


def test_start_copies_no_topology_through_a_link_in_place_of_a_file(trap, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    (data_dir / TOPOLOGY).mkdir(parents=True)
    trap.make(data_dir / TOPOLOGY / "core_id")
    failed(run_script("kerneltools-start", *QUICK, timeout=PATIENCE), f"{TOPOLOGY}/core_id")
    assert not trap.sprung()


def test_what_a_failed_start_left_is_no_hindrance(run_script, data_dir, stand_in, tmp_path):
    """The topology of the first try lies there, and its log."""
    played(stand_in, tmp_path, supported=[])
    assert run_script("kerneltools-start", *QUICK).rc == 1
    assert (data_dir / TOPOLOGY).is_dir()
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0


def test_links_that_are_no_business_of_its_are_none(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    (data_dir / "notes.txt").symlink_to("/etc/hostname")
    (data_dir / "turbostat-stdout.txt").symlink_to("/etc/hostname")
    assert run_script("kerneltools-start", *QUICK).rc == 0


# ---- stop


@pytest.fixture
def running(run_script, data_dir, stand_in, tmp_path):
    """A collection that has begun; its collector's pid."""
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    assert wait_until(lambda: (data_dir / OUTPUT).exists() and (data_dir / OUTPUT).stat().st_size > 0)
    (collector,) = recorded(data_dir)
    return collector.pid


def unpacked(archive):
    return lzma.decompress(archive.read_bytes()).decode()


def archived(data_dir):
    """The first event in the archive of the output."""
    return json.loads(unpacked(data_dir / f"{OUTPUT}.xz").splitlines()[0])["event"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (STOP_LOG, f"cannot write {STOP_LOG}"),
        ("kerneltools-clock.txt", "cannot write kerneltools-clock.txt"),
        ("kerneltools-kept.txt", None),
        ("kerneltools-environment.txt", None),
        ("perf-stat-stderrout.txt", None),
        (f"{OUTPUT}.xz.partial", None),
    ],
)
def test_stop_ends_and_collects_and_writes_through_nothing(name, said, trap, running, run_script, data_dir):
    trap.make(data_dir / name)
    done = run_script("kerneltools-stop", timeout=PATIENCE)
    assert start_time(running) is None
    assert not trap.sprung()
    assert archived(data_dir) == "cycles"
    assert not (data_dir / OUTPUT).exists()
    if said is None:
        assert (done.rc, done.err) == (0, "")
    else:
        failed(done, said)


def test_stop_neither_overwrites_nor_trusts_what_lies_where_the_archive_goes(trap, running, run_script, data_dir):
    """What was collected stays."""
    trap.make(data_dir / f"{OUTPUT}.xz")
    failed(run_script("kerneltools-stop", timeout=PATIENCE), f"{OUTPUT} could not be compressed and stays as it is")
    assert start_time(running) is None
    assert not trap.sprung()
    assert (data_dir / OUTPUT).stat().st_size > 0


def test_a_link_to_another_archive_of_the_same_time_does_not_cost_the_output(running, run_script, data_dir, tmp_path):
    os.kill(running, 2)
    assert wait_until(lambda: start_time(running) is None)
    (tmp_path / "other.xz").write_bytes(lzma.compress(b"other\n"))
    (data_dir / f"{OUTPUT}.xz").symlink_to(tmp_path / "other.xz")
    times = (data_dir / OUTPUT).stat()
    os.utime(data_dir / f"{OUTPUT}.xz", ns=(times.st_atime_ns, times.st_mtime_ns), follow_symlinks=False)
    assert run_script("kerneltools-stop").rc == 1
    assert (data_dir / OUTPUT).stat().st_size > 0


def test_stop_archives_nothing_from_elsewhere(trap, running, run_script, data_dir):
    """An output that was replaced by a link: neither is what it leads to taken in, nor is it taken away."""
    trap.make(data_dir / OUTPUT)
    failed(run_script("kerneltools-stop", timeout=PATIENCE), f"perf-stat: {OUTPUT} is a link, or no file")
    assert start_time(running) is None
    assert not trap.sprung()
    assert not (data_dir / f"{OUTPUT}.xz").exists()


def test_a_record_that_names_a_file_elsewhere_takes_nothing_from_there(running, run_script, data_dir, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious\n")
    record = data_dir / "kerneltools-pids.txt"
    record.write_text(record.read_text().replace(OUTPUT, str(precious)))
    run_script("kerneltools-stop")
    assert start_time(running) is None
    assert precious.read_text() == "precious\n"
    assert not (tmp_path / "precious.xz").exists()
    assert archived(data_dir) == "cycles"


def test_a_record_that_is_none_is_named(trap, running, run_script, data_dir, tmp_path):
    record = data_dir / "kerneltools-pids.txt"
    kept = record.read_text()
    trap.make(record)
    failed(run_script("kerneltools-stop", timeout=PATIENCE), "kerneltools-pids.txt is a link, or not what start would make there")
    assert not trap.sprung()
    record.unlink()
    record.write_text(kept)
    assert run_script("kerneltools-stop").rc == 0
    assert ("perf-stat", "end") in clock(data_dir)


@pytest.mark.parametrize("name", ["kerneltools-kept.txt", "perf-stat-stderrout.txt"])
def test_a_file_without_end_does_not_keep_stop(name, running, run_script, data_dir):
    """A hole of a terabyte, which takes no space; and a collector that had died, whose words are looked for."""
    os.kill(running, 9)
    assert wait_until(lambda: start_time(running) is None)
    os.truncate(data_dir / name, 1 << 40) if (data_dir / name).exists() else (data_dir / name).touch()
    failed(run_script("kerneltools-stop", timeout=PATIENCE), "had ended before stop")
    assert archived(data_dir) == "cycles"


def test_words_of_a_dead_collector_are_not_waited_for(trap, running, run_script, data_dir):
    os.kill(running, 9)
    assert wait_until(lambda: start_time(running) is None)
    trap.make(data_dir / "perf-stat-stderrout.txt")
    failed(run_script("kerneltools-stop", timeout=PATIENCE), "perf-stat-stderrout.txt is a link, or no file, and is not read")
    assert not trap.sprung()


# ---- what follows the end of a collector

RECORDING = """
while (( $# )); do
    case $1 in
        --version) echo perf version 6.1; exit ;;
        record) echo recorded >perf.data; trap 'exit 0' INT; while :; do sleep 0.02; done ;;
        report) echo a report; exit ;;
        archive) echo binaries | bzip2 >/dev/null; tar -cjf perf.data.tar.bz2 perf.data; exit ;;
    esac
    shift
done
"""


@pytest.mark.parametrize("name", ["perf-report.txt", "perf.data.tar.bz2", "perf.data.xz.partial"])
def test_perf_records_afterwork_writes_through_nothing(name, trap, run_script, data_dir, stand_in):
    if shutil.which("bzip2") is None:
        pytest.skip("bzip2 is not installed")
    stand_in("perf", RECORDING)
    assert run_script("kerneltools-start", "--subtools=perf-record", "--perf-gen-local-report").rc == 0
    assert wait_until((data_dir / "perf.data").exists)
    trap.make(data_dir / name)
    done = run_script("kerneltools-stop", timeout=PATIENCE)
    assert (done.rc, done.err) == (0, "")
    assert not trap.sprung()
    assert (data_dir / "perf-report.txt").read_text() == "a report\n"
    assert not (data_dir / "perf.data.tar.bz2").is_symlink()


def test_perf_record_keeps_its_copies_in_no_linked_directory(run_script, data_dir, stand_in, tmp_path):
    stand_in("perf", RECORDING)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("precious\n")
    (data_dir / "perf-record-buildids").symlink_to(tmp_path / "elsewhere")
    assert run_script("kerneltools-start", "--subtools=perf-record").rc == 0
    assert not (data_dir / "perf-record-buildids").is_symlink()
    assert (tmp_path / "elsewhere/file").read_text() == "precious\n"


@pytest.mark.parametrize("name", ["trace-cmd-report.txt", "trace-cmd-report.txt.xz.partial"])
def test_trace_cmds_afterwork_writes_through_nothing(name, trap, trace_cmd, run_script, data_dir):  # noqa: F811
    assert run_script("kerneltools-start", "--subtools=trace-cmd", "--trace-cmd-record-opts=-e sched").rc == 0
    assert wait_until((data_dir / "trace.dat.cpu1").exists)
    trap.make(data_dir / name)
    done = run_script("kerneltools-stop", timeout=PATIENCE)
    assert (done.rc, done.err) == (0, "")
    assert not trap.sprung()
    assert unpacked(data_dir / "trace-cmd-report.txt.xz").startswith("cpus=2\n")


def test_a_restored_recording_is_not_written_through_a_link(trap, trace_cmd, run_script, data_dir):  # noqa: F811
    assert run_script("kerneltools-start", "--subtools=trace-cmd", "--trace-cmd-record-opts=-e sched").rc == 0
    assert wait_until((data_dir / "trace.dat.cpu1").exists)
    (collector,) = recorded(data_dir)
    os.kill(collector.pid, 9)
    assert wait_until(lambda: start_time(collector.pid) is None)
    trap.make(data_dir / "trace.dat")
    run_script("kerneltools-stop", timeout=PATIENCE)
    assert not trap.sprung()
    assert "sleep-1" in unpacked(data_dir / "trace.dat.xz")


@pytest.mark.parametrize("name", ["trace.cpu0.out", "trace.out"])
def test_the_kernels_trace_is_not_copied_through_a_link(name, trap, plain, run_script, data_dir):  # noqa: F811
    tracing = plain("1", {0: {"entries": 1}})
    how = "system" if name == "trace.out" else "per-cpu"
    assert run_script("kerneltools-start", "--subtools=sysfs-trace", f"--sysfs-trace-collection={how}", env=tracing.env).rc == 0
    trap.make(data_dir / name)
    done = run_script("kerneltools-stop", env=tracing.env, timeout=PATIENCE)
    assert not trap.sprung()
    assert (done.rc, (data_dir / f"{name}.xz").is_file()) == (0, True), "\n".join(log_lines(data_dir, STOP_LOG))


def test_local_event_lists_of_toplev_are_put_into_no_linked_directory(run_script, data_dir, stand_in, tmp_path):
    """toplev.py copies what it needs of a local perfmon into a directory here."""
    stand_in("perf", "echo perf version 6.12.0")
    elsewhere, tools, perfmon = tmp_path / "elsewhere", tmp_path / "pmu-tools", tmp_path / "perfmon"
    for directory in (elsewhere, tools, perfmon):
        directory.mkdir()
    (perfmon / "mapfile.csv").write_text("")
    (elsewhere / "file").write_text("precious\n")
    (tools / "toplev.py").write_text(
        "import os, sys\nopen(os.environ['CACHEDIR'] + '/file', 'w').write('a list')\n"
        "print('toplev, CPU: icx, TMA version: 5.1-full')\nopen('toplev-output.csv', 'w').write('begun')\n"
    )
    (data_dir / "toplev-pmu-events").symlink_to(elsewhere)
    settings = {
        "PMU_TOOLS_HOME": tools, "PERFMONDIR": perfmon, "HOME": tmp_path, "CACHEDIR": None, "XDG_CACHE_HOME": None, "EVENTMAP": None,
        "KERNELTOOLS_TOPLEV_OPTIONS": "--force-cpu=icx",
    }  # fmt: skip
    run_script("kerneltools-start", "--subtools=toplev", env=settings)
    assert (elsewhere / "file").read_text() == "precious\n"
    assert not (data_dir / "toplev-pmu-events").is_symlink()
    assert (data_dir / "toplev-pmu-events/file").read_text() == "a list", "\n".join(log_lines(data_dir))
