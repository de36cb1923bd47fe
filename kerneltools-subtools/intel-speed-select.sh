# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# intel-speed-select - sets base frequency, turbo and core power for the run, with intel-speed-select.
# Known, so that its parameters are checked, but not built yet.

parameter base-freq choice:enable,disable '' "base frequency feature; unchanged where not given"
parameter turbo-freq choice:enable,disable '' "turbo frequency feature; unchanged where not given"
parameter core-power choice:enable,disable '' "core power feature; unchanged where not given"
output settings.txt plain
output 'perf-profile_*.txt' plain

subtool_usable() {
    skip "this version does not have it yet"
}
