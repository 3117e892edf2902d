#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# usage: tools/bootstrap.sh [run|dev|long]
#
# Makes .venv with the locked requirements (run: l4sbench itself; dev: tests and
# checks too) and installs the system packages that the lab build needs; for dev
# also a browser to test pages, and shells and tools that tests run; for long also
# the tools that make Debian hosts and virtual machines.
# A second call does nothing. PYTHON=... names another interpreter.
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

# install_packages PACKAGE...: by apt as root or with sudo, otherwise reports what is missing.
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
	# refresh first: an old package list names versions that the archive no longer has
	if ! { $as_root apt-get -q update &&
		$as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"; } \
		</dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		say "apt-get could not install them; its full output is in $log"
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

# state KIND: checksum of everything that an environment of that kind is made from.
state() { cat "requirements/$1.txt" pyproject.toml tools/bootstrap.sh | cksum; }

# installed KIND: true if .venv already has exactly that.
installed() { test "$(cat ".venv/installed-$1" 2>/dev/null)" = "$(state "$1")"; }

# Scripts in .venv contain its path, so it is made again when the checkout has moved.
if ! .venv/bin/python -c '' 2>/dev/null || ! grep -qsxF "$(pwd)" .venv/checkout; then
	make_venv
	pwd >.venv/checkout
fi
if ! installed dev && ! installed "$kind"; then
	say "Installing Python packages ($lock)"
	rm -f .venv/installed-*
	pip=".venv/bin/python -m pip --disable-pip-version-check --quiet"
	# Python compiles what it imports; compiling all of it now takes as long as installing it
	$pip install --no-compile --require-hashes -r "$lock"
	$pip install --no-compile --no-deps --no-build-isolation --editable .
	state "$kind" >".venv/installed-$kind"
	fresh=yes
fi

# A failure here is not fatal: the lab build reports what is missing.
missing=$(.venv/bin/l4sbench doctor --missing-packages) || missing=
if test -n "$missing"; then
	# one name per line; word splitting is intended
	# shellcheck disable=SC2086
	install_packages $missing
fi

# Tests are skipped, and say so, without a browser and these tools; therefore one attempt per environment is enough.
on_path() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }
has_browser() { on_path chromium || on_path chromium-browser || on_path google-chrome; }
if test "$kind" = dev && test "${fresh-no}" = yes; then
	missing=
	has_browser || missing=chromium
	on_path nft || missing="$missing nftables"
	# packages of these have the same names
	for tool in zsh irtt dkms; do
		on_path "$tool" || missing="$missing $tool"
	done
	if test -n "$missing"; then
		# shellcheck disable=SC2086
		install_packages $missing || say "Without them, some tests are skipped."
	fi
fi

# Long tests are skipped without these tools, and name the missing ones, or need them for packages of kernels.
if test "$wanted" = long; then
	missing=$(.venv/bin/python -c 'from l4sbench.testbeds.ssh import ownkernel; print(*ownkernel.missing_packages())')
	on_path qemu-system-x86_64 || missing="$missing qemu-system-x86"
	on_path qemu-img || missing="$missing qemu-utils"
	on_path mmdebstrap || missing="$missing mmdebstrap"
	on_path debugfs || missing="$missing e2fsprogs"
	if test -n "$missing"; then
		# shellcheck disable=SC2086
		install_packages $missing || say "Without them, tests/lab/debian is skipped or fails."
	fi
fi
