// Package bench is funet-bench, which is `funet bench`: FUNet beside its alternatives, on labs.
//
//	command   compares                                   with
//	peers     round trips of a short message             raw AF_XDP, sockets, UCX, MPI, libfabric
//	calls     calls and messages                         ping-pong, gRPC, requests, blocks
//	rate      short messages a second, one way           sendmmsg and recvmmsg over UDP
//	incast    goodput of all other hosts to one          FUNet from one host alone
//	hops      round trips over routers in the kernel     the same over fewer
//	xfer      block transfers, at several MTUs           raw AF_XDP; iperf3, one TCP stream
//	socket    connections: round trips, bytes, shares    TCP by the same program; block transfers
//	rats      package rats                               active messages, blocks
//	rma       operations on another process's memory     messages, transfers; UCX, MPI, fabtests
//	matmul    a matrix product on all hosts and on one   the same program in C over OpenMPI
//	mpi       MPI programs over the provider funet       the same over TCP and tcp;ofi_rxm
//	ofi       libfabric's tests over the provider        over others; FUNet's own programs
//
// One benchmark is one file: its flags, its contenders and its figures (benchmark). Contenders are
// FUNet's programs (ctl/program), which this binary has too and starts as nodes of the lab, tools
// of the system, and pairs of child processes (runRole).
//
// All but incast, hops, matmul and mpi measure between hosts 0 and 1. Programs on host 0 are pinned
// to CPU 0, those on host 1 to CPU 1; a product, or MPI's ranks, on more hosts or ranks than CPUs
// pin nothing. In peers and xfer host 0 begins or sends; in rate and incast it receives.
//
// # The journey
//
// A command checks its flags, makes the lab, and finds the lab's XDP mode (ctl/rawxdp). The
// benchmark enters its contenders in a match, which is played in rounds. In each round every
// contender runs once, alone. The order moves on by one from round to round, so that changes of the
// machine's speed affect all alike (comparison.go). The report has the medians of the rounds'
// figures. In peers, rate, incast and matmul, and for rma's rivals, ratios are those of the
// medians. Elsewhere they are the medians of the rounds' ratios. Calls, rate, incast, xfer, socket,
// rats and matmul need all their contenders, so the first failure ends them.
//
// xfer has two labs at each MTU. FUNet and raw AF_XDP take turns on one. The other is for iperf3
// and has no XDP program, which would slow its interfaces. Raw AF_XDP is the limit: a pair of this
// program that moves the same frames with one copy in, one out and no protocol (role_stream.go). A
// first transfer, which does not count, finds the number of blocks that take the requested time.
//
// matmul's two programs have the same blocks, panels and inner loop (uspace/apps/matmul.go,
// mpi/matmul.c), and as many panels under way. FUNet's loop is assembly. OpenMPI's loop is the
// compiler's, with all the instructions of the machine. The time on one host shows how fast each
// loop is, and the report names both. FUNet polls after a fixed number of operations. Over TCP
// polling costs a system call, so the MPI program calls MPI at the interval that a few runs before
// the rounds find fastest. Each program computes the product twice, so that memory, code and
// connections are warm. It measures the second product and verifies it.
//
// peers first looks which peers are present. A run has a server on host 1 and a client on host 0,
// which sends a message, waits for the echo and measures; both spin.
//
//	key            what runs                                            what it reports
//	funet          pingpong between embedded cards                      round trips
//	funet_udp      the same, in UDP datagrams                           round trips
//	funet_daemons  the same, through two daemons                        round trips
//	funet_direct   the same, an ordinary user's with direct ports       round trips
//	funet_shared   the same, on one host                                round trips
//	funet_local    the same, between two contexts of one process        round trips
//	ultra          lines on two ULTRA paths between embedded cards      round trips
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
// "mean". Messages are 64 bytes. raw_afxdp sends frames as long as FUNet's instead, so it is the
// limit of what FUNet could reach.
//
// A peer of this program, rate's UDP, calls' gRPC and xfer's raw AF_XDP are each a pair of child
// processes. Parent and child exchange lines (child.go): open, ready, run, result.
//
// # Rules
//
//   - Names of figures in JSON are stable, and contain the units.
//   - Only one OS thread of a child is pinned; tools are started through taskset(1).
//   - Every process is the first of a PID namespace of its own (pid_namespaces(7)) and has a
//     deadline. Killing it ends all its descendants, daemons too, before its Wait returns.
//   - A tool that is not installed is absent, which is no error: the report says so.
//   - A peer of peers that fails has its error in the report, is tried once more in the next round,
//     and is left out after a second failure. Only funet's failure ends the comparison.
//   - A tool's output is kept up to 64 KiB; the rest is dropped.
package bench
