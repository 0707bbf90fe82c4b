// Package bench compares FUNet with what one would use otherwise, on labs, and finds the XDP mode
// that is fastest there. FUNet itself is a function of the caller's.
//
//	function         compares                                       with
//	Peers            round trips of a short message raw AF_XDP, sockets, UCX, MPI, libfabric
//	Rate             short messages a second, one way               sendmmsg and recvmmsg over UDP
//	Incast           goodput of all other hosts to one              FUNet from one host alone
//	Xfer             block transfers, at several MTUs raw AF_XDP; iperf3, one TCP stream
//	Socket           connections: round trips, bytes, shares TCP by the same program; block
//	                 transfers
//	RMA              operations on another process's memory messages, transfers; UCX, OpenMPI,
//	                 fabtests
//	Matmul           a matrix product on all hosts and on one the same program in C over OpenMPI
//	CalibrateMode    round trips of raw AF_XDP in each XDP mode     each other
//
// All but Incast and Matmul measure between hosts 0 and 1, each of which reaches the other by its
// first interface in every topology; in a larger lab the others are idle. What runs on host 0 is
// pinned to CPU 0, what runs on host 1 to CPU 1; a product on more hosts than CPUs pins nothing. In
// Peers and Xfer host 0 begins or sends; in Rate and Incast it receives.
//
// # The journey
//
// A comparison is played in rounds. In each round every contender runs once, alone, in an order
// that moves on by one from round to round, so that what changes on the machine meanwhile meets all
// of them alike. The rounds' figures give the medians, and those the ratios of the report; only
// Xfer's ratio is the median of the ratios in the rounds. Rate, Incast, Xfer, Socket and Matmul
// need all their contenders, so the first failure ends them (comparison.go).
//
// Xfer has two labs at each MTU: FUNet's, which raw AF_XDP uses in its turn, and one for iperf3
// without an XDP program, which would slow its interfaces. Raw AF_XDP is the limit: a pair of this
// program that moves the same frames with one copy in, one out and no protocol (role_stream.go). A
// first transfer, which does not count, tells how many blocks take the time that is asked for.
//
// Matmul's two programs have the same blocks, panels and inner loop (uspace/apps/matmul.go,
// mpi/matmul.c), and as many panels under way. The loop of the one is assembly, that of the other
// what the compiler makes of it with all the instructions of the machine; a time on one host shows
// for each what it takes, and the report names both. FUNet polls after a fixed number of
// operations; over TCP polling costs a system call, so the MPI program calls MPI as rarely as a few
// runs before the rounds find fastest. Each computes the product twice, so that memory, code and
// connections are warm, measures the second and verifies it.
//
// Peers first looks which peers are present. A run is a server on host 1 and a client on host 0,
// which sends a message, waits for the echo and measures; both spin. The run gives a [Sample].
//
//	key            what runs                                            what it reports
//	funet          the caller's function (Options.Funet)                round trips
//	funet_udp      the same (Options.UDP), in UDP datagrams             round trips
//	funet_daemons  the same (Options.Daemons), through two daemons     round trips
//	funet_local    the same (Options.Local), between two contexts      round trips
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
// A peer of this program, Rate's UDP and Xfer's raw AF_XDP are each a pair of child processes: the
// caller's own binary, which calls [RunRole] when it is started so. Parent and child talk in lines
// (child.go): open, ready, run, result. CalibrateMode keeps one pair for each mode and lets them
// take turns.
//
// # Rules
//
//   - Only one OS thread of a child is pinned; tools are started through taskset(1).
//   - Every process is the first of a PID namespace of its own (pid_namespaces(7)) and has a
//     deadline. Killing it ends whatever it has started, daemons too, before its Wait returns.
//   - A tool that is not installed is absent, which is no error: the report says so.
//   - A peer of Peers that fails has its error in the report, is tried once more in the next
//     round, and is left out after a second failure. Only funet's failure ends the comparison.
//   - What a tool prints is kept up to 64 KiB; what comes after is dropped.
package bench
