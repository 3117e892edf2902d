#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# Runs the kernel's own checkpatch over our kernel modules, where a kernel tree
# is at hand: $KERNEL_TREE, or the tree the lab was built from.
set -eu
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/l4sbench

for checkpatch in "${KERNEL_TREE:-/nonexistent}"/scripts/checkpatch.pl \
	"$cache"/*/scripts/checkpatch.pl "$cache"/*/*/scripts/checkpatch.pl; do
	test -f "$checkpatch" || continue
	command -v perl >/dev/null || break
	find kernels -name '*.[ch]' -not -path 'kernels/lab/*' -exec \
		perl "$checkpatch" --no-tree --terse --quiet --no-summary --strict \
		--ignore LINUX_VERSION_CODE,FILE_PATH_CHANGES,SPDX_LICENSE_TAG --file {} +
	exit 0
done
echo "checkpatch: no kernel tree at hand, left out" >&2
