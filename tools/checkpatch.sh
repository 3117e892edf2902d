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
	"$cache"/kernel/*/tree/scripts/checkpatch.pl; do
	# perl-base alone lacks a module that checkpatch loads
	if ! test -f "$checkpatch" || ! perl -MTerm::ANSIColor -e 1 2>/dev/null; then
		continue
	fi
	# programs of the guest and parts of tc are not the kernel's
	find kernels -name '*.[ch]' -not -path 'kernels/lab/guest/*' -not -name 'q_*.c' -exec \
		perl "$checkpatch" --no-tree --terse --quiet --no-summary --strict \
		--ignore FILE_PATH_CHANGES,MACRO_ARG_REUSE,MACRO_ARG_PRECEDENCE,CONST_STRUCT,CAMELCASE --file {} +
	exit 0
done
echo "checkpatch: no kernel tree (or no perl) at hand, left out" >&2
