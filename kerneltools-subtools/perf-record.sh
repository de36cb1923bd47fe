# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# perf-record - samples where the CPUs spend their time, with perf record.
# Known, so that its parameters are checked, but not built yet.

subtool_alias perf
parameter record-opts options '' "further options of perf record; split into words, never evaluated"
parameter perf-gen-local-report flag OFF "write perf-report.txt here"
output perf.data
output perf.data.tar.bz2 plain
output perf-report.txt plain

subtool_usable() {
    skip "this version does not have it yet"
}
