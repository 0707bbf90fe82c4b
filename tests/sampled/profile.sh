#!/usr/bin/env bash
# Makes the profiles that funet, funid and the provider for libfabric are built with, ctl/funet/default.pgo,
# ctl/funid/default.pgo and uspace/ofi/default.pgo: runs what they are for, on labs of its own, and merges where
# they spent their time. Needs root, gcc, libfabric's headers and an otherwise idle machine, for a minute or two. What runs are binaries built for this only, without a profile, so
# that the one before does not matter.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir "$dir/samples"
chmod 1777 "$dir/samples" # the programs of a lab run as an ordinary user
"$go" build -pgo=off -tags sampled -o "$dir/funet" ./ctl/funet
CGO_ENABLED=0 "$go" build -pgo=off -tags sampled -o "$dir/funid" ./ctl/funid
CGO_ENABLED=1 "$go" build -pgo=off -tags sampled,libfabric -buildmode=c-shared \
	-ldflags="-extldflags '-Wl,--version-script=$PWD/uspace/ofi/ofi.map'" -o "$dir/libfunet-fi.so" ./uspace/ofi
gcc -O2 -shared -fPIC -fvisibility=hidden -o "$dir/libfunet-onstack.so" uspace/ofi/onstack/onstack.c
gcc -O2 -Wno-unused-function -o "$dir/ofi" tests/sampled/testdata/ofi.c -lfabric
chmod 755 "$dir/funet" "$dir/funid" "$dir/ofi" "$dir"/*.so
export FUNET_SAMPLES=$dir/samples
funet=$dir/funet
embedded() { # embedded PROGRAM FLAG...: on cards of the programs' own
	echo "make profile: $*, embedded cards" >&2
	timeout 300 "$funet" "$@" --lab 2 --xdp native --card embedded >/dev/null
}
daemons() { # the same on the cards of two daemons
	echo "make profile: $*, daemons" >&2
	timeout 300 "$funet" run -n 2 --lab --xdp native -- "$funet" "$@" >/dev/null
}
part=${PART:-1} # of what is run: PART=10 for a tenth, to try this script
# The lone message counts most, so most of the time is its.
embedded pingpong --exchanges $((2500000 / part))
embedded flood --messages $((3000000 / part))
embedded stream --messages $((10000000 / part))
embedded transfer --bytes $(((4 << 30) / part / 65536 * 65536)) --block 65536
embedded transfer --bytes $(((4 << 30) / part / 65536 * 65536)) --block 65536 --depth 8 --mtu 9000 --jumbo
daemons pingpong --exchanges $((300000 / part))
daemons flood --messages $((2000000 / part))
daemons stream --messages $((5000000 / part))
daemons transfer --bytes $(((2 << 30) / part / 65536 * 65536)) --block 65536
echo "make profile: the provider for libfabric, direct ports" >&2
timeout 300 "$funet" run -n 2 --lab --card direct --ofi -- "$dir/ofi" $((1000000 / part))
# Beside the kernel's part of a round trip the engine's has few samples: so it runs alone, too.
echo "make profile: the engine's benchmarks" >&2
for bench in PingPongStep Flood; do
	"$go" test -pgo=off -run '^$' -bench "$bench\$" -benchtime "$((10000 / part))ms" -cpuprofile "$FUNET_SAMPLES/funet-$bench.pb.gz" -o "$dir/engine.test" ./uspace/engine >/dev/null
	cp "$FUNET_SAMPLES/funet-$bench.pb.gz" "$FUNET_SAMPLES/funid-$bench.pb.gz"
done
# The provider's calls of C have no lines that the compiler could use.
"$go" tool pprof -symbolize=none -proto -output="$dir/ofi.pgo" "$FUNET_SAMPLES"/ofi-*.pb.gz "$FUNET_SAMPLES"/funet-*.pb.gz 2>/dev/null
install -m 644 "$dir/ofi.pgo" uspace/ofi/default.pgo
for program in funet funid; do
	"$go" tool pprof -proto -output="$dir/$program.pgo" "$FUNET_SAMPLES"/$program-*.pb.gz 2>/dev/null
	install -m 644 "$dir/$program.pgo" "ctl/$program/default.pgo"
	ls -l "ctl/$program/default.pgo" >&2
done
# Nodes of funet-bench are funet's programs, and funet-paper runs the engine in virtual time.
for program in funet-bench funet-paper; do
	install -m 644 ctl/funet/default.pgo "ctl/$program/default.pgo"
done
