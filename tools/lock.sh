#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# Writes requirements/*.txt: every package with its hashes, for all Pythons from
# 3.11 on in one file. No index and no host is written: the machine's own pip
# configuration says where packages come from. Arguments go to `uv pip compile`,
# such as --upgrade or --upgrade-package NAME.
set -eu
cd "$(dirname "$0")/.."

lock() {
	output=$1
	shift
	# hatchling is what the editable install builds with
	echo hatchling | .venv/bin/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
		--custom-compile-command "make lock" --output-file "$output" pyproject.toml - "$@"
}

test -x .venv/bin/uv || .venv/bin/python -m pip install --quiet uv
lock requirements/run.txt "$@"
lock requirements/dev.txt --constraints requirements/run.txt --extra ansible --extra fabric --extra test --extra check "$@"
