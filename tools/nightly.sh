#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# usage: tools/nightly.sh MATRIX [RUNS]
#
# One night of a regression sweep: runs a matrix into a new run directory below
# RUNS (default: runs), compares it with the last good run and with the
# baseline where there is one, and keeps the outcome in
# RUNS/<matrix>/history.tsv and history.html. What is no worse becomes the
# last good run.
#
#   RUNS/<matrix>/good      link to the last good run; this script moves it
#   RUNS/<matrix>/baseline  link to a run that you chose; catches what gets
#                           worse by less than a margin every night
#
# L4SBENCH names the command (default: .venv/bin/l4sbench of this checkout, else
# the one on the PATH); L4SBENCH_MARGINS a file of margins. With L4SBENCH_BENCH
# set, the lab's speed is measured too, and compared with RUNS/bench.json.
# Exits as l4sbench does: 0 no worse, 1 worse or some trial failed, 2 and 3 the
# sweep could not run, or its run could not be compared.
set -eu

usage() {
	echo "usage: tools/nightly.sh MATRIX [RUNS]" >&2
	exit 2
}
test $# -ge 1 && test $# -le 2 || usage
matrix=$1
runs=${2:-runs}
own=$(dirname "$0")/../.venv/bin/l4sbench
if test -z "${L4SBENCH:-}"; then
	if test -x "$own"; then L4SBENCH=$own; else L4SBENCH=l4sbench; fi
fi

say() { printf '%s\n' "$*" >&2; }

# The matrix's name is its run directory's; the plan knows it, and that the file is right.
plan=$("$L4SBENCH" plan "$matrix" --json --dir "$runs") || exit
name=$(printf '%s' "$plan" | python3 -c 'import json, sys; print(json.load(sys.stdin)["matrix"])')
home=$runs/$name
mkdir -p "$home"

# One night at a time: a sweep that takes longer than a day must not be joined by the next.
exec 9>"$home/nightly.lock"
flock -n 9 || {
	say "a nightly sweep of $name is still under way"
	exit 3
}

ended=0
"$L4SBENCH" run "$matrix" --new --dir "$runs" || ended=$?
test "$ended" -le 1 || {
	say "the sweep could not run (exit code $ended); nothing compared"
	exit "$ended"
}
new=$(readlink "$home/latest")

outcome=ok
test "$ended" -eq 0 || outcome="some trial failed"
# The history names the run that the outcome is about: the last good one, unless another comparison is worse.
against=none
failed=0
for base in good baseline; do
	test -e "$home/$base/manifest.json" || {
		test -L "$home/$base" || continue
		say "$home/$base leads to no run; remove this link, or make it lead to one"
		outcome="could not be compared with $base"
		failed=2
		continue
	}
	other=$(readlink "$home/$base")
	test "$against" != none || against=$other
	say "compared with $base ($other):"
	compared=0
	"$L4SBENCH" compare "$home/$base" "$home/$new" --dir "$runs" \
		--junit "$home/$new/report/against-$base.xml" \
		--page "$home/$new/report/against-$base.html" \
		${L4SBENCH_MARGINS:+--margins "$L4SBENCH_MARGINS"} || compared=$?
	case $compared in
	0) ;;
	1)
		outcome="worse than $base"
		against=$other
		;;
	*)
		outcome="could not be compared with $base"
		against=$other
		failed=$compared
		;;
	esac
done

# Only ratios are compared, so that a busy machine is no regression. What is no slower replaces the file.
if test -n "${L4SBENCH_BENCH:-}"; then
	speed=$runs/bench.json
	tools=$(dirname "$0")
	if "$tools/../.venv/bin/python" "$tools/bench.py" --json "$speed.new" --against "$speed" >&2; then
		mv "$speed.new" "$speed"
	else
		outcome="slower, or its speed could not be measured"
	fi
fi

history=$home/history.tsv
test -s "$history" || printf 'run\tcompared with\toutcome\n' >"$history"
printf '%s\t%s\t%s\n' "$new" "$against" "$outcome" >>"$history"
say "$name $new: $outcome (history: $history)"
# The page of all nights is a view of what is kept: a night does not fail for it.
"$L4SBENCH" history "$name" --dir "$runs" \
	${L4SBENCH_MARGINS:+--margins "$L4SBENCH_MARGINS"} >/dev/null ||
	say "the page of nights could not be written"
test "$failed" -eq 0 || exit "$failed"
test "$outcome" = ok || exit 1
# A link is replaced by renaming, so that there is always one.
ln -sfn "$new" "$home/good.new"
mv -T "$home/good.new" "$home/good"
