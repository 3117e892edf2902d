#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# Writes requirements/*.txt: every package with its hashes, one file for all
# Pythons from 3.11 on. run.txt has the dependencies of l4sbench, bench.txt adds
# ns-3 for tools/bench.py, flent.txt flent for its tests, scale.txt is run.txt with Dask for clusters, dev.txt has that,
# the other extras and the dependency groups, docs.txt what makes the site. No index or host is written: pip's own
# configuration names the index. Arguments go to `uv pip compile`, for example --upgrade or --upgrade-package NAME.
set -eu
cd "$(dirname "$0")/.."

lock() {
	output=$1
	shift
	# the editable install builds with hatchling
	echo hatchling | .venv/bin/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
		--custom-compile-command "make lock" --output-file "$output" pyproject.toml - "$@"
}

test -x .venv/bin/uv || .venv/bin/python -m pip install --quiet uv
lock requirements/run.txt "$@"
# tools/bench_ns3.cc is compiled against the wheel's libraries: what its Python part needs is left out
echo 'ns3>=3.44' | .venv/bin/uv pip compile --quiet --no-deps --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock" --output-file requirements/bench.txt - "$@"
.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --group flent \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock" --output-file requirements/flent.txt "$@"
lock requirements/scale.txt --constraints requirements/run.txt --extra scale "$@"
lock requirements/dev.txt --constraints requirements/scale.txt --extra scale --extra ansible --extra fabric --extra notebook --group test --group check "$@"
# into the same environment as dev.txt, by `make docs`
printf '%s\n' 'mkdocs-material>=9.5' 'mkdocstrings[python]>=0.27' | .venv/bin/uv pip compile --quiet --universal \
	--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--constraints requirements/dev.txt \
	--custom-compile-command "make lock" --output-file requirements/docs.txt - "$@"
