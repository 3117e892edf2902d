#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# usage: tools/bootstrap.sh [run|dev|long]
#
# Makes .venv with the locked requirements (run: what l4sbench needs; dev: tests
# and checks too) and installs what the lab build needs from the system, for dev
# a browser to test pages in and what Debian hosts are made with as well, for
# long what virtual machines need.
# Does nothing the second time. PYTHON=... names another interpreter.
set -eu
cd "$(dirname "$0")/.."
kind=${1:-run}
wanted=$kind
test "$kind" != long || kind=dev
lock=requirements/$kind.txt
test -f "$lock" || {
	echo "usage: tools/bootstrap.sh [run|dev|long]" >&2
	exit 2
}

say() { printf '%s\n' "$*" >&2; }

# The first interpreter that runs, is new enough and can make environments.
find_python() {
	for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
		if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
			>/dev/null 2>&1; then
			echo "$candidate"
			return 0
		fi
	done
	return 1
}

# install_packages PACKAGE...: by apt as root or with sudo, else says what is missing.
install_packages() {
	if ! command -v apt-get >/dev/null; then
		say "These are missing (by their Debian names); please install them: $*"
		return 1
	fi
	if test "$(id -u)" -eq 0; then
		as_root="env"
	elif sudo -n true 2>/dev/null; then
		as_root="sudo env"
	else
		say "These packages are missing, and this user may not install them. Please run:"
		say "    sudo apt-get install --no-install-recommends $*"
		return 1
	fi
	say "Installing system packages: $*"
	log=$(mktemp)
	# an old package list names versions that are gone, so it is refreshed first
	if ! { $as_root apt-get -q update &&
		$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"; } \
		</dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		say "apt-get could not install them; its whole output: $log"
		return 1
	fi
	rm -f "$log"
}

make_venv() {
	if ! python=$(find_python); then
		install_packages python3 python3-venv
		python=$(find_python) || {
			say "Python 3.11 or newer with venv is needed (PYTHON=/path/to/python3 names one)."
			exit 1
		}
	fi
	say "Making .venv with $("$python" --version 2>&1)"
	rm -rf .venv
	"$python" -m venv .venv
}

# state KIND: what an environment of that kind is made from.
state() { cat "requirements/$1.txt" pyproject.toml tools/bootstrap.sh | cksum; }

# installed KIND: whether .venv holds just that already.
installed() { test "$(cat ".venv/installed-$1" 2>/dev/null)" = "$(state "$1")"; }

# Scripts in .venv carry its path, so it is made anew when the checkout moved.
if ! .venv/bin/python -c '' 2>/dev/null || ! grep -qsxF "$(pwd)" .venv/checkout; then
	make_venv
	pwd >.venv/checkout
fi
if ! installed dev && ! installed "$kind"; then
	say "Installing Python packages ($lock)"
	rm -f .venv/installed-*
	pip=".venv/bin/python -m pip --disable-pip-version-check --quiet"
	$pip install --require-hashes -r "$lock"
	$pip install --no-deps --no-build-isolation --editable .
	state "$kind" >".venv/installed-$kind"
	fresh=yes
fi

# Not an error of ours if it cannot say: the lab build itself will.
missing=$(.venv/bin/l4sbench doctor --missing-packages) || missing=
if test -n "$missing"; then
	# one name a line; splitting is meant
	# shellcheck disable=SC2086
	install_packages $missing
fi

# Tests of pages are skipped without a browser, and say so; so this is tried once per environment.
has_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
if test "$kind" = dev && test "${fresh-no}" = yes && ! has_browser >/dev/null; then
	install_packages chromium || say "Without Chromium, tests/browser is skipped."
fi

# Likewise what tests/lab/debian makes its hosts with.
has_makers() { command -v mmdebstrap && PATH="$PATH:/sbin" command -v debugfs; }
if test "$kind" = dev && test "${fresh-no}" = yes && ! has_makers >/dev/null; then
	install_packages mmdebstrap e2fsprogs || say "Without them, tests/lab/debian is skipped."
fi

# The long tests that need them say what is missing, and are skipped.
if test "$wanted" = long && ! { command -v qemu-system-x86_64 && command -v qemu-img &&
	command -v mmdebstrap; } >/dev/null; then
	install_packages qemu-system-x86 qemu-utils mmdebstrap ||
		say "Without them, tests/lab/vms is skipped."
fi
