# shellcheck shell=bash
# -*- mode: sh; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# SPDX-License-Identifier: Apache-2.0
#
# packages.sh - sourced by tests/run, .ci/run and examples/run-local: makes sure that programs are here
#
#   need xz perf ...    Installs the packages of those programs that do not work here, where this is root with
#                       apt-get, dnf, microdnf, yum or zypper. Afterwards, one line on stderr for each that still
#                       does not work, with what to install; result 1 if there is one.
#   python_here venv    Prints the first Python that is new enough (3.9), with what tests/run needs of it; without
#                       the word venv any such Python.
#
# Programs: any command's name, and `python` (3.9 or newer) and `python-venv` (one that can make virtual environments).

python_here() {
    local want='import sys; sys.exit(sys.version_info < (3, 9))' candidate
    [[ ${1:-} == venv ]] && want="import venv, ensurepip; $want"
    for candidate in python3 /usr/bin/python3 python3.{14..9}; do
        if "$candidate" -I -c "$want" >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# Ubuntu's perf is a wrapper that refuses where no perf of the running kernel's version is installed; any other version does.
perf_of_another_kernel() {
    local candidate newest=""
    for candidate in /usr/lib/linux-tools*/*/perf /usr/lib/linux-tools-*/perf; do
        [[ -x $candidate ]] && newest=$candidate
    done
    [[ -n $newest ]] && "$newest" --version >/dev/null 2>&1 && PATH=${newest%/perf}:$PATH
}

works_here() {
    case $1 in
        python) python_here >/dev/null ;;
        python-venv) python_here venv >/dev/null ;;
        perf) perf --version >/dev/null 2>&1 || perf_of_another_kernel ;;
        gcc) printf '#include <unistd.h>\n#include <linux/perf_event.h>\n' | gcc -E -x c - >/dev/null 2>&1 ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

package_manager() {
    local manager
    for manager in apt-get dnf microdnf yum zypper; do
        command -v "$manager" && return 0
    done
    return 1
}

# One line for each way to get PROGRAM with MANAGER: the packages to install together. The first that does it is enough.
packages_of() {
    local program=$1 manager=$2
    case $program:$manager in
        perf:*apt-get) printf '%s\n' linux-perf "linux-tools-generic linux-tools-$(uname -r)" linux-tools-generic ;;
        perf:*) echo perf ;;
        xz:*apt-get) echo xz-utils ;;
        flock:* | setsid:* | taskset:* | getopt:*) echo util-linux ;;
        python:*apt-get) echo python3 ;;
        python-venv:*apt-get) echo "python3 python3-venv" ;;
        python:*zypper | python-venv:*zypper) printf '%s\n' python3 python311 ;;
        python:* | python-venv:*) printf '%s\n' python3 python3.11 ;;
        chromedriver:*apt-get) echo chromium-driver ;;
        gcc:*apt-get) echo "gcc libc6-dev" ;;
        gcc:*) echo "gcc glibc-devel kernel-headers" ;;
        *) echo "$program" ;;
    esac
}

install_packages() {
    local manager=$1
    shift
    case $manager in
        *apt-get) DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" ;;
        *zypper) zypper --non-interactive --quiet install --no-recommends "$@" ;;
        *) "$manager" install -y "$@" ;;
    esac </dev/null
}

need() {
    local program manager packages output hint="" missing=() failed=0
    for program in "$@"; do
        works_here "$program" || missing+=("$program")
    done
    (( ${#missing[@]} )) || return 0

    manager=$(package_manager) || manager=""
    if [[ -n $manager && $EUID -ne 0 ]]; then
        hint=" (root could have it done here, with ${manager##*/})"
    elif [[ -n $manager ]]; then
        printf 'installing what is missing here: %s\n' "${missing[*]}"
        # a failure here is no failure yet: the packages may be in the lists of an earlier time
        [[ $manager == *apt-get ]] && { apt-get update -qq </dev/null >/dev/null 2>&1 || true; }
    fi
    for program in "${missing[@]}"; do
        output=""
        if [[ -n $manager && $EUID -eq 0 ]]; then
            while IFS= read -r packages; do
                # shellcheck disable=SC2086  # a list of package names
                output=$(install_packages "$manager" $packages 2>&1)
                hash -r
                works_here "$program" && continue 2
            done < <(packages_of "$program" "$manager")
        fi
        failed=1
        packages=$(packages_of "$program" "${manager:-any}")
        printf 'ERROR: %s is missing here, or does not work; install %s%s\n' "$program" "${packages//$'\n'/, or }" \
            "${output:+ (tried: $(tail -n 1 <<<"$output"))}$hint" >&2
    done
    return "$failed"
}
