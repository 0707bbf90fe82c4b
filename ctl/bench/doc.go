// Package bench compares FUNet's round trip with that of other transports on one lab, and finds
// the XDP mode that is fastest there. It measures between hosts 0 and 1, each of which reaches the
// other by its first interface in every topology; in a larger lab the others are idle.
//
// # The journey
//
// [Peers] looks which peers are present, then plays rounds. In each round every present peer runs
// once, alone, in an order that moves on by one from round to round, so that what changes on the
// machine meanwhile meets all of them alike. A run is a server on host 1, CPU 1, and a client on
// host 0, CPU 0, which sends a message, waits for the echo and measures; both spin. The run gives a
// [Sample]; the samples of a peer's rounds give its medians, and those divided by funet's the
// ratios of the [Report].
//
//	key            what runs                                            what it reports
//	funet          the caller's function (Options.Funet)                round trips
//	raw_afxdp      this program: AF_XDP rings and nothing else          round trips
//	udp_spin       this program: nonblocking sendto/recvfrom            round trips
//	tcp_spin       the same over TCP with TCP_NODELAY                   round trips
//	sockperf       sockperf ping-pong --nonblocked over UDP             half round trips
//	ucx            ucx_perftest ucp_am_lat with UCX_TLS=tcp,self        half round trips
//	openmpi        mpi/pingpong.c, compiled with mpicc, btl tcp         round trips
//	libfabric_rxd  fi_pingpong -p udp;ofi_rxd                           mean of half round trips
//	libfabric_rxm  fi_pingpong -p tcp;ofi_rxm                           mean of half round trips
//
// Half round trips are doubled. A mean stands in the place of the median and carries the note
// "mean". Messages are 64 bytes; raw_afxdp sends frames as long as FUNet's instead, so that it is
// the limit of what FUNet could reach.
//
// A peer of this program is a pair of child processes: the caller's own binary, which calls
// [RunRole] when it is started so. Parent and child talk in lines (child.go): open, ready, run,
// result. [CalibrateMode] keeps one pair for each mode and lets them take turns.
//
// # Rules
//
//   - Only one OS thread of a child is pinned; tools are started through taskset(1).
//   - Every process is the first of a PID namespace of its own (pid_namespaces(7)) and has a
//     deadline. Killing it ends whatever it has started, daemons too, before its Wait returns.
//   - A peer that is not installed is absent, which is no error. One that fails has its error in
//     the report, is tried once more in the next round, and is left out after a second failure.
//     Only funet's failure ends the comparison.
//   - What a tool prints is kept up to 64 KiB; what comes after is dropped.
package bench
