# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Why nothing is measured: the program's own first telling words, and what is to be installed or set."""

import pytest
from collection import lines_with, log_lines, played, warnings
from test_start import failed

from kerneltools.log import shown

# What other programs print, word for word where it is theirs.
WRAPPER = """\
WARNING: perf not found for kernel 6.8.0-49

  You may need to install the following packages for this specific kernel:
    linux-tools-6.8.0-49-generic
    linux-cloud-tools-6.8.0-49-generic

  You may also want to install one of the following packages to keep up to date:
    linux-tools-generic
"""
LIMITED = """\
Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
access to performance monitoring and observability operations for processes
without CAP_PERFMON, CAP_SYS_PTRACE or CAP_SYS_ADMIN Linux capability.
perf_event_paranoid setting is 4:
  -1: Allow use of (almost) all events by all users
To make the adjusted perf_event_paranoid setting permanent preserve it
in /etc/sysctl.conf (e.g. kernel.perf_event_paranoid = <setting>)
"""
FORBIDDEN = """\
Error:
The sys_perf_event_open() syscall returned with 1 (Operation not permitted) for event (cycles).
/bin/dmesg | grep -i perf may provide additional information.
"""
WITHOUT_JSON = """\
  Error: unknown option `json'

 Usage: perf stat [<options>] [<command>]

    -a, --all-cpus        system-wide collection from all CPUs
"""
MAPPING = """\
Permission error mapping pages.
Consider increasing /proc/sys/kernel/perf_event_mlock_kb,
or try again with a smaller value of -m/--mmap_pages.
(current value: 4294967295,0)
"""
RIGHTS = "be root, or set sysctl kernel.perf_event_paranoid=-1; a container needs CAP_PERFMON, or to be privileged"


def refusing(stand_in, words, status, version="perf version 5.4.0"):
    """A perf that tells its version and its metric groups, and refuses all else."""
    told = f"case $1 in --version) echo '{version}'; exit ;; list) echo PipelineL1; exit ;; esac\n"
    stand_in("perf", (told if version else "") + f"cat >&2 <<'WORDS'\n{words}WORDS\nexit {status}")


def reason(run_script, data_dir, subtool, **options):
    """Why the one subtool is skipped; the error is the same."""
    error = failed(run_script("kerneltools-start", f"--subtools={subtool}", **options))
    (warning,) = lines_with(warnings(data_dir), "skipped")
    begin = f"WARNING: {subtool}: skipped: "
    assert warning.startswith(begin)
    assert error == f"ERROR: nothing runs: {subtool}: {warning[len(begin) :]}"
    return warning[len(begin) :]


@pytest.mark.parametrize("subtool", ["perf-stat", "perf-record", "toplev"])
def test_ubuntus_wrapper_without_a_perf_for_this_kernel(subtool, run_script, data_dir, stand_in, tmp_path):
    refusing(stand_in, WRAPPER, 2, version=None)
    said = reason(run_script, data_dir, subtool)
    assert said == (
        f"{tmp_path}/stand-ins/perf does not run: perf not found for kernel 6.8.0-49 (install linux-tools-6.8.0-49-generic, or have a perf "
        "of another kernel first on PATH: any version does)"
    )


def test_a_perf_without_its_libraries(run_script, data_dir, stand_in, tmp_path):
    words = "perf: error while loading shared libraries: libpython3.9.so.1.0: cannot open shared object file: No such file or directory\n"
    refusing(stand_in, words, 127, version=None)
    assert reason(run_script, data_dir, "toplev") == f"{tmp_path}/stand-ins/perf does not run: {words.strip()}"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (LIMITED, 255, f"Access to performance monitoring and observability operations is limited. ({RIGHTS})"),
        (FORBIDDEN, 255, "The sys_perf_event_open() syscall returned with 1 (Operation not permitted) for event (cycles)."
                         f" ({RIGHTS})"),
        (WITHOUT_JSON, 129, "unknown option `json' (this perf is too old, it needs perf 6.0 or newer)"),
    ],
    ids=["paranoid", "container", "before 6.0"],
)  # fmt: skip
def test_a_perf_that_counts_nothing_tells_why_and_what_helps(words, status, said, run_script, data_dir, stand_in):
    refusing(stand_in, words, status)
    assert reason(run_script, data_dir, "perf-stat") == f"perf counts nothing here: {said}"


@pytest.mark.parametrize(("words", "said"), [(LIMITED, "Access to performance monitoring"), (WITHOUT_JSON, "this perf is too old")])
def test_toplev_passes_perfs_reason_on(words, said, run_script, data_dir, stand_in):
    refusing(stand_in, words, 129)
    told = reason(run_script, data_dir, "toplev")
    assert "perf has the metric groups PipelineL1 for this CPU, but cannot count them here: " in told
    assert said in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (LIMITED, f"Access to performance monitoring and observability operations is limited. ({RIGHTS})"),
        (MAPPING, "Permission error mapping pages. (be root, or raise sysctl kernel.perf_event_mlock_kb)"),
    ],
)
def test_a_perf_record_that_may_not(words, said, run_script, data_dir, stand_in):
    refusing(stand_in, words, 255)
    assert reason(run_script, data_dir, "perf-record") == said


def test_a_turbostat_that_may_not_open_its_files(run_script, data_dir, stand_in):
    stand_in("turbostat", "[[ $1 == --version ]] && echo turbostat version 2024.07.26 && exit\n"
                          "echo 'turbostat: Failed to set rlimit: Operation not permitted' >&2; exit 1")  # fmt: skip
    said = reason(run_script, data_dir, "turbostat")
    begin, end = "turbostat: Failed to set rlimit: Operation not permitted (it wants 32768 open files, the limit is ", "CAP_SYS_RESOURCE)"
    assert said.startswith(begin)
    assert said.endswith(f": raise ulimit -Hn, or give it {end}")


def test_a_failed_start_does_not_make_its_directory_a_strangers(run_script, data_dir, stand_in):
    refusing(stand_in, WRAPPER, 2, version=None)
    reason(run_script, data_dir, "perf-stat")
    done = run_script("kerneltools-post-process")
    assert done.rc == 0
    assert done.out.splitlines()[-1] == (
        f"nothing to publish in {shown(str(data_dir))}: kerneltools-start was called there, but nothing ran; "
        "kerneltools-start-stderrout.txt says why (grep ERROR)"
    )


def test_where_nothing_was_ever_started_it_is_still_said(run_script, data_dir):
    done = run_script("kerneltools-post-process")
    assert "it does not look like a run's directory" in done.out


def test_what_perf_says_of_one_event_is_no_reason_against_all(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path, unknown=["nosuch"])
    done = run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.05", "--perf-stat-events=nosuch,cycles")
    assert done.rc == 0
    assert lines_with(log_lines(data_dir), "WARNING: perf-stat: nosuch: dropped: unknown event")
