#!/usr/bin/env bash
# Checks the model of the link's handshake with spin, and that spin finds the planted mistakes: a table on stdout; 1 if any
# outcome is another than is expected. It needs spin and gcc, and takes under 2 GB.
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/handshake.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
wrong=0

# try CLAIM EXPECTED DEFINES...: EXPECTED is "holds", or what spin must find.
try() {
	local claim=$1 expected=$2 cc="-DSAFETY -DBFS" run="" found
	shift 2
	case "$*" in *LIVE*) cc=-DNFAIR=3 run="-a -f" ;; esac
	spin -a -DSLOTS=2 -DSEQS=1 "$@" "$model" >spin.log || { cat spin.log >&2; exit 1; }
	gcc -O2 -w -DCOLLAPSE -DMEMLIM=1900 $cc -o pan pan.c
	./pan -m1000000 $run >out
	if found=$(grep -m1 -oE 'assertion violated.*\)|acceptance cycle' out); then
		found=${found% (at*}
	elif grep -q 'errors: 0' out && ! grep -qE 'Search not completed|too small' out; then
		found=holds
	else
		found="no result"
	fi
	[[ $found == *"$expected"* ]] || wrong=1
	[[ $found == *"$expected"* ]] && said=yes || said="NO, $found"
	printf '%-10s %-44s %-32s %s\n' "$claim" "$(last "$@")" "$expected" "$said"
}

# last names the mistake among defines.
last() {
	for d; do
		case $d in
		-DEPOCH) echo "arrive.go: any epoch is the present one" ;;
		-DTWICE) echo "arrive.go: repeats are not known" ;;
		-DREDRAW) echo "handshake.go: a spent nonce is kept" ;;
		-DSTALE) echo "arrive.go: stale frames get no greeting" ;;
		-DDEAD) echo "none; it cannot be excluded (handshake.go)" ;;
		esac
	done | grep . || echo none
}

once="-DRESTARTS=1 -DLOSSES=0 -DDUPS=1 -DLOSES=0 -DRESYNCS=0"
live="-DLIVE -DRESTARTS=1 -DLOSSES=1 -DDUPS=0 -DLOSES=0 -DRESYNCS=0"
printf '%-10s %-44s %-32s %s\n' claim mistake expected found
try once,old holds $once
try old "assertion violated  !(fLeft" $once -DEPOCH
try once "assertion violated  !((fMarked" $once -DTWICE
try agreed holds $live
try agreed "acceptance cycle" $live -DREDRAW
try agreed "acceptance cycle" $live -DSTALE
try living "assertion violated (fIncarnation" $once -DDEAD
exit $wrong
