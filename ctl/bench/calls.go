package bench

// This file is `funet bench calls`. Host 0 calls and sends.

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/program"
)

const (
	mebibyte     = 1 << 20 // bytes of a long message
	longMessages = 512     // in a run
	warmLong     = 16      // long messages before those
)

// callers are the numbers of goroutines that call at once.
var callers = []int{1, 2, 8}

// calls compares calls and messages with similar operations.
type calls struct {
	exchanges, messages int
	inC                 bool // beside the same in C (calls_c.go)
}

func (o *calls) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "calls",
		Short: "Compare calls with ping-pong and with gRPC over TCP",
		Long: fmt.Sprintf(`Compare how long a call of %d bytes takes that a handler answers with as many bytes: FUNet's,
beside a ping-pong of a request and a reply of 16 bytes, and beside a unary call of gRPC over one TCP
connection between the same two hosts. They take turns; figures are medians over the rounds, and ratios
medians of those in each round. Besides: messages of 16 bytes one way, beside requests of as many in words,
messages of 1 MiB, beside blocks as bench xfer moves them, and calls of 1, 2 and 8 goroutines at once. An end of gRPC has its host's processor for itself and leaves everything to
Go's scheduler, which does not spin; FUNet polls.`, payload),
		Example: "  funet bench calls --lab 2\n  funet bench calls --lab 2 --card direct --c",
	}
	c.Flags().BoolVar(&o.inC, "c", false, "also measure programs in C on libfunet, with --card direct")
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "calls and exchanges of each and in each round")
	f.number(c, &o.messages, "messages", limits{1000, 100_000_000, 1_000_000}, "messages one way in each round")
	f.RegisterCard(c)
	return f.register(c, 2, 2, 2)
}

func (o *calls) enter(ctx context.Context, m *match) error {
	m.what, m.unit = "measure calls", "p50 us, messages/s and Gbit/s"
	m.deadline = patient(o.exchanges) + time.Duration(o.messages)*20*time.Microsecond
	remote := func(do string, bytes, count, warmUp, goroutines int) args {
		return program.RemoteOptions{Do: do, Bytes: bytes, Count: count, WarmUp: warmUp, Goroutines: goroutines}
	}
	m.funet("call", program.RemoteProgram, remote(program.RemoteCalls, payload, o.exchanges, warmUp, 1), p50)
	m.funet("pingpong", "pingpong", pingPong(o.exchanges), p50)
	m.theirs(roleGRPC, func(ctx context.Context) (float64, error) {
		s, err := m.roundTrips(ctx, roleGRPC, o.exchanges)
		return s.P50, err
	})
	m.funet("send16", program.RemoteProgram, remote(program.RemoteSends, 16, o.messages, warmUp, 1), arrived)
	m.funet("request16", program.RemoteProgram, remote(program.RemoteRequests, 16, o.messages, warmUp, 1), arrived)
	m.funet("send1m", program.RemoteProgram, remote(program.RemoteSends, mebibyte, longMessages, warmLong, 1),
		func(n []node) float64 { return arrived(n) * mebibyte * 8 / 1e9 })
	m.funet("xfer", "transfer", transfer(longMessages*mebibyte, xferBlock.usual, xferDepth.usual), goodput)
	for _, n := range callers {
		m.funet(fmt.Sprintf("%d goroutines", n), program.RemoteProgram,
			remote(program.RemoteCalls, payload, o.exchanges, warmUp, n), arrived)
	}
	if o.inC {
		return o.enterC(ctx, m)
	}
	return nil
}

func (o *calls) report(m *match) (r report, err error) {
	type rate struct {
		N         int       `json:"n"`
		PerSecond float64   `json:"msgs_per_s"` // calls and answers
		Rounds    []float64 `json:"rounds_msgs_per_s"`
	}
	var rates []rate
	for _, n := range callers {
		c := m.of(fmt.Sprintf("%d goroutines", n))
		rates = append(rates, rate{n, *median(c.figures), c.figures})
	}
	r.with(figure{"call_p50_us", m.median("call")}, figure{"pingpong_p50_us", m.median("pingpong")},
		figure{"ratio_to_pingpong", m.ratio("call", "pingpong")}, figure{"grpc_p50_us", m.median("grpc")},
		figure{"ratio_to_grpc", m.ratio("call", "grpc")},
		// time of a message of 16 bytes by that of a request of four words
		figure{"send16_ratio", m.ratio("request16", "send16")}, figure{"send16_msgs_per_s", m.median("send16")},
		figure{"request16_msgs_per_s", m.median("request16")},
		// rate of messages of 1 MiB by that of blocks
		figure{"send1m_ratio", m.ratio("send1m", "xfer")}, figure{"send1m_gbit_per_s", m.median("send1m")},
		figure{"xfer_gbit_per_s", m.median("xfer")}, figure{"goroutines", rates}, figure{"rounds", m.rounds},
		figure{"rounds_call_p50_us", m.of("call").figures}, figure{"rounds_pingpong_p50_us", m.of("pingpong").figures},
		figure{"rounds_ratio_to_pingpong", m.ratios("call", "pingpong")},
		figure{"rounds_grpc_p50_us", m.of("grpc").figures}, figure{"rounds_ratio_to_grpc", m.ratios("call", "grpc")},
		figure{"rounds_send16_ratio", m.ratios("request16", "send16")},
		figure{"rounds_send1m_ratio", m.ratios("send1m", "xfer")},
		figure{"call_bytes", payload}, figure{"exchanges", o.exchanges}, figure{"messages", o.messages},
		figure{"xdp_mode", m.attach}, figure{"bind_mode", m.bind})
	r.print("calls of %d bytes and answers of as many, one after the other; medians of %d rounds; XDP %s, %s\n",
		payload, m.rounds, m.attach, m.bind)
	r.print("%-10s %9s %14s  %s\n", "", "p50 us", "call by it", "by round")
	r.print("%-10s %9.2f %14s\n", "call", m.median("call"), "-")
	for _, name := range []string{"pingpong", "grpc"} {
		r.print("%-10s %9.2f %14.3f  %s\n", name, m.median(name), m.ratio("call", name),
			ratios3(m.ratios("call", name)))
	}
	r.print("pingpong: a request and a reply of 16 bytes; grpc: unary calls over one TCP connection, with the runtime's scheduler, an end on each processor\n")
	r.print("messages of 16 bytes: %.2f million/s; requests of four words: %.2f; time of the first by that of the second %.3f (%s)\n",
		m.median("send16")/1e6, m.median("request16")/1e6, m.ratio("request16", "send16"),
		ratios3(m.ratios("request16", "send16")))
	r.print("messages of 1 MiB: %.2f Gbit/s; blocks: %.2f; the first by the second %.3f (%s)\n",
		m.median("send1m"), m.median("xfer"), m.ratio("send1m", "xfer"), ratios3(m.ratios("send1m", "xfer")))
	if o.inC {
		o.reportC(m, &r)
	}
	for _, g := range rates {
		r.print("%d goroutines call: %.2f million messages/s\n", g.N, g.PerSecond/1e6)
	}
	return r, nil
}
