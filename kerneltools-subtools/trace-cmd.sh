# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# trace-cmd - records kernel trace events, with trace-cmd.
# Known, so that its parameters are checked, but not built yet.

parameter trace-cmd-record-opts options '' "further options of trace-cmd record; split into words, never evaluated"
output trace.dat
output trace-cmd-report.txt

subtool_usable() {
    skip "this version does not have it yet"
}
