package bench

// This file is `funet bench socket`. Host 0 dials and sends.

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/program"
)

const (
	socketStreams   = 64 // at once, whose shares are measured
	warmConnections = 50 // opened before the counted ones
)

// sockets compares package socket's connections with Go's TCP, by the same program, and with block
// transfers.
type sockets struct {
	exchanges, connections, idle, megabytes int

	streams map[string][]float64 // Gbit/s of all streams together, by contender
	// cpu is the time of both processes with idle connections, in per cent of a processor.
	cpu []float64
}

func (o *sockets) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "socket",
		Short: "Compare connections (package socket) with Go's TCP and with block transfers",
		Long: `Compare the connections that FUNet gives Go programs (package socket) with those of TCP: the same program with the
one and with the other, in turn, between the same two hosts and interfaces. Measured are round trips of 64 bytes, alone
and beside a connection that is written to as fast as it takes it; bytes a second of one connection, beside TCP's and beside
the blocks of bench xfer; how evenly 64 connections share the way (Jain's index, 1 where they are equal); and connections
opened, used for one round trip and closed; datagrams that arrive, beside UDP's; and what connections cost that were used and
are idle: memory of a process for each, and time of both. Each process has a processor for itself. Figures are medians over the
rounds, and ratios medians of those in each round.`,
		Example: "  funet bench socket --lab 2 --json",
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "round trips in each run")
	f.number(c, &o.connections, "connections", limits{10, 10_000, 1000}, "opened in each run")
	f.number(c, &o.idle, "idle", limits{10, 10_000, 10_000}, "connections that are open at once and not used")
	f.number(c, &o.megabytes, "megabytes", limits{1, 1 << 16, 512}, "of each bulk transfer, in units of 2^20 bytes")
	f.RegisterCard(c)
	return f.register(c, 2, 2, 2)
}

func (o *sockets) enter(_ context.Context, m *match) error {
	m.what, m.unit = "measure sockets", "p50 us, Gbit/s, Jain's index, connections/s and bytes"
	m.deadline = patient(o.exchanges) + time.Duration(o.connections+o.idle)*20*time.Millisecond +
		time.Duration(o.megabytes)*100*time.Millisecond
	o.streams = map[string][]float64{}
	// The end where data arrives has the rate.
	gbit := func(n []node) float64 { return max(n[0].Gbit, n[1].Gbit) }
	rate := func(n []node) float64 { return max(n[0].PerSecond, n[1].PerSecond) }
	for _, c := range []struct {
		name   string
		do     program.SocketOptions
		figure func([]node) float64
	}{
		{"rtt", program.SocketOptions{Do: program.SocketRoundTrips, Bytes: payload, Count: o.exchanges,
			WarmUp: warmUp}, p50},
		{"beside", program.SocketOptions{Do: program.SocketBeside, Bytes: payload, Count: max(o.exchanges/10, 1),
			WarmUp: warmUp / 10}, p50},
		{"bulk", program.SocketOptions{Do: program.SocketBulk, Bytes: o.megabytes << 20}, gbit},
		{"jain", program.SocketOptions{Do: program.SocketStreams, Streams: socketStreams},
			func(n []node) float64 { return n[1].Jain }},
		{"conns", program.SocketOptions{Do: program.SocketConnections, Count: o.connections,
			WarmUp: warmConnections}, rate},
		{"datagrams", program.SocketOptions{Do: program.SocketDatagrams, Bytes: payload}, rate},
	} {
		for _, over := range []string{program.OverFunet, program.OverTCP} {
			name, flags, do := c.name, &m.f.Flags, c.do
			if do.Over = over; over == program.OverTCP {
				name, flags = "tcp_"+name, flags.OnOwnCards() // it takes the hosts' addresses
			}
			run := func(ctx context.Context) ([]node, error) {
				n, err := m.nodes(ctx, flags, program.SocketProgram, do.Arguments())
				if err == nil && c.name == "jain" {
					o.streams[name] = append(o.streams[name], gbit(n))
				}
				if err == nil && over == program.OverTCP {
					n[0].XDPMode, n[0].BindMode = m.attach, m.bind // of FUNet
				}
				return n, err
			}
			m.ours(name, run, c.figure)
		}
	}
	m.funet("xfer", "transfer", transfer(o.megabytes<<20, xferBlock.usual, xferDepth.usual), goodput)
	m.funet("idle", program.SocketProgram, program.SocketOptions{Do: program.SocketIdle, Over: program.OverFunet,
		Count: o.idle}, func(n []node) float64 {
		o.cpu = append(o.cpu, n[0].CPU+n[1].CPU)
		return max(n[0].BytesEach, n[1].BytesEach)
	})
	return nil
}

func (o *sockets) report(m *match) (r report, err error) {
	streams, tcpStreams := *median(o.streams["jain"]), *median(o.streams["tcp_jain"])
	r.with(figure{"rtt_ratio_to_tcp", m.ratio("rtt", "tcp_rtt")},
		figure{"beside_bulk_ratio_to_tcp", m.ratio("beside", "tcp_beside")},
		figure{"bulk_ratio_to_xfer", m.ratio("bulk", "xfer")}, figure{"bulk_ratio_to_tcp", m.ratio("bulk", "tcp_bulk")},
		figure{"jain_64", m.median("jain")}, figure{"conns_per_s_ratio", m.ratio("conns", "tcp_conns")},
		figure{"datagrams_ratio", m.ratio("datagrams", "tcp_datagrams")},
		figure{"idle_bytes_per_conn", m.median("idle")}, figure{"idle_cpu_percent", *median(o.cpu)},
		figure{"idle_conns", o.idle})
	for _, c := range [][2]string{{"rtt_p50_us", "rtt"}, {"tcp_rtt_p50_us", "tcp_rtt"},
		{"beside_bulk_rtt_p50_us", "beside"}, {"tcp_beside_bulk_rtt_p50_us", "tcp_beside"}, {"bulk_gbit_per_s", "bulk"},
		{"tcp_bulk_gbit_per_s", "tcp_bulk"}, {"xfer_gbit_per_s", "xfer"}, {"tcp_jain_64", "tcp_jain"}} {
		r.with(figure{c[0], m.median(c[1])})
	}
	r.with(figure{"streams_gbit_per_s", streams}, figure{"tcp_streams_gbit_per_s", tcpStreams},
		figure{"conns_per_s", m.median("conns")}, figure{"tcp_conns_per_s", m.median("tcp_conns")},
		figure{"datagrams_per_s", m.median("datagrams")}, figure{"udp_datagrams_per_s", m.median("tcp_datagrams")},
		figure{"rounds_rtt_ratio_to_tcp", m.ratios("rtt", "tcp_rtt")},
		figure{"rounds_beside_bulk_ratio_to_tcp", m.ratios("beside", "tcp_beside")},
		figure{"rounds_bulk_ratio_to_xfer", m.ratios("bulk", "xfer")}, figure{"rounds_jain_64", m.of("jain").figures},
		figure{"rounds_conns_per_s_ratio", m.ratios("conns", "tcp_conns")},
		figure{"rounds_datagrams_ratio", m.ratios("datagrams", "tcp_datagrams")},
		figure{"rounds", m.rounds}, figure{"message_bytes", payload}, figure{"exchanges", o.exchanges},
		figure{"xdp_mode", m.attach}, figure{"bind_mode", m.bind})
	r.print("connections of package socket beside Go's TCP, one program, the same lab; medians of %d rounds; XDP %s, %s\n",
		m.rounds, m.attach, m.bind)
	r.print("%-38s %10s %10s %8s  %s\n", "", "FUNet", "TCP", "ratio", "by round")
	line := func(name string, funet, tcp, ratio float64, rounds []float64) {
		r.line("%-38s %10.2f %10.2f %8.3f  %s", name, funet, tcp, ratio, ratios3(rounds))
	}
	of := func(title, name string, rounds []float64) {
		tcp := "tcp_" + name
		line(title, m.median(name), m.median(tcp), m.ratio(name, tcp), rounds)
	}
	of(fmt.Sprintf("round trip of %d bytes, p50 us", payload), "rtt", m.ratios("rtt", "tcp_rtt"))
	of("beside a full connection, p50 us", "beside", m.ratios("beside", "tcp_beside"))
	of("bulk, Gbit/s", "bulk", nil)
	line(fmt.Sprintf("%d streams, Gbit/s", socketStreams), streams, tcpStreams, streams/tcpStreams, nil)
	line("Jain's index of their shares", m.median("jain"), m.median("tcp_jain"), m.median("jain")/m.median("tcp_jain"),
		nil)
	of("connections a second", "conns", m.ratios("conns", "tcp_conns"))
	of("datagrams a second (UDP)", "datagrams", m.ratios("datagrams", "tcp_datagrams"))
	r.print("%d idle connections: %.1f KiB each, and both processes together use %.2f %% of a processor\n",
		o.idle, m.median("idle")/1024, *median(o.cpu))
	r.print("bulk by blocks as bench xfer moves them, at the same MTU: %.2f Gbit/s, ratio %.3f (%s)\n",
		m.median("xfer"), m.ratio("bulk", "xfer"), ratios3(m.ratios("bulk", "xfer")))
	return r, nil
}
