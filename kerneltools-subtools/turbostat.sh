# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# turbostat - frequency, idle states, temperature and power, with turbostat.
# Known, so that its parameters are checked, but not built yet.

output turbostat-stdout.txt

subtool_usable() {
    skip "this version does not have it yet"
}
