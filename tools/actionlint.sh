#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# usage: tools/actionlint.sh [FILE...]
#
# Checks workflow files (all of .github/workflows by default) with actionlint:
# the one on the PATH, or one that Go builds once into the user's cache. Without
# either the check is skipped, with the reason on stderr.
set -eu
cd "$(dirname "$0")/.."
version=v1.7.12
module=github.com/rhysd/actionlint/cmd/actionlint@$version
folder=${XDG_CACHE_HOME:-$HOME/.cache}/l4sbench/actionlint/$version

skip() {
	echo "actionlint: skipped: $1" >&2
	exit 0
}

actionlint=$(command -v actionlint) || actionlint=$folder/actionlint
if ! test -x "$actionlint"; then
	command -v go >/dev/null || skip "neither actionlint nor Go is installed"
	# Go must not download another toolchain for it: where Go is too old, the check is skipped.
	if ! log=$(GOBIN="$folder" GOTOOLCHAIN=local timeout 300 go install "$module" 2>&1); then
		skip "Go could not build $module: $(printf '%s\n' "$log" | tail -n 1)"
	fi
fi
# With shellcheck, which .venv has, it reads the shell in `run:` steps too.
PATH="$(pwd)/.venv/bin:$PATH" exec "$actionlint" "$@"
