#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# usage: check.sh MATRIX NAME
#
# Runs a matrix of that name, and compares it with the baseline that was kept in
# runs/NAME/baseline; without one, this run becomes it. Leaves l4s.txt, l4s.html
# and l4s.xml (JUnit). L4SBENCH names the command.
# Exits with 0: no worse, 1: worse, or a trial is not valid, 2 and 3: it could
# not run.
set -eu

test $# -eq 2 || {
	echo "usage: check.sh MATRIX NAME" >&2
	exit 2
}
matrix=$1
name=$2
l4sbench=${L4SBENCH:-l4sbench}
baseline=runs/$name/baseline

"$l4sbench" run "$matrix" --new --trust
if test ! -e "$baseline"; then
	ln -s "$(readlink "runs/$name/latest")" "$baseline"
	echo "kept as the baseline: $(readlink "$baseline")"
	exit 0
fi
worse=0
"$l4sbench" compare "$baseline" "$name" --junit l4s.xml --page l4s.html >l4s.txt || worse=$?
cat l4s.txt
if test -n "${GITHUB_STEP_SUMMARY:-}"; then
	{
		echo '```'
		cat l4s.txt
		echo '```'
	} >>"$GITHUB_STEP_SUMMARY"
fi
exit "$worse"
