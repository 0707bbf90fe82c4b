// This file compares package socket's connections with Go's TCP, by the same program on the same
// lab, and with block transfers, in turn. Host 0 dials and sends.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// The limits of SocketOptions.
var (
	SocketConnections = Limits{10, 10_000, 1000}
	// SocketMegabytes is in units of 2^20 bytes.
	SocketMegabytes = Limits{1, 1 << 16, 512}
	// SocketIdling are the limits of the number of idle connections that are open at once.
	SocketIdling = Limits{10, 10_000, 10_000}
)

// SocketStreams is the number of concurrent streams whose shares are measured.
const SocketStreams = 64

// SocketOptions say what Socket does. Zero values stand for the defaults.
type SocketOptions struct {
	Rounds      int // see Rounds
	Exchanges   int // round trips in each run, see Exchanges
	Connections int // in each run, see SocketConnections
	Megabytes   int // of each bulk transfer, see SocketMegabytes
	Idle        int // connections, see SocketIdling

	// Funet and TCP each do one measurement between hosts 0 and 1, within ctx. Transfer moves that
	// many bytes from host 0 to host 1 in blocks, as Xfer does. All are required.
	Funet, TCP func(ctx context.Context, l *lab.Lab, do SocketDo) (SocketSample, error)
	Transfer   func(ctx context.Context, l *lab.Lab, bytes int) (SocketSample, error)

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
}

// SocketDo selects a measurement.
type SocketDo int

const (
	SocketRoundTrips SocketDo = iota // messages of PayloadBytes, one after the other
	// the same, while another connection is written to as fast as possible
	SocketBeside
	SocketBulk   // one connection, one way
	SocketShares // SocketStreams connections, one way, at once
	// connections opened, used for one round trip and closed, one after the other
	SocketDials
	SocketDatagrams // of PayloadBytes, one way
	// idle connections that have been used before, for FUNet only
	SocketIdle
)

// SocketSample has the measurements of one run. Figures that the run does not have are 0.
type SocketSample struct {
	Sample
	PerSecond float64 // connections, or datagrams that arrived
	Gbit      float64 // bits of data that arrived a second, in 10^9
	Jain      float64 // Jain's index of the streams' shares, 1 at most
	BytesEach float64 // a process's memory for each idle connection
	// per cent of a processor that both processes together use for all idle connections
	CPU               float64
	XDPMode, BindMode string // FUNet's
}

// SocketReport is the result of Socket. Its JSON form is stable. Figures outside of rounds are
// medians over the rounds. Ratios outside of rounds are medians of the ratios of each round.
type SocketReport struct {
	RTTRatio         float64 `json:"rtt_ratio_to_tcp"`         // time of a round trip by TCP's
	BesideRatio      float64 `json:"beside_bulk_ratio_to_tcp"` // the same beside a full connection
	BulkRatio        float64 `json:"bulk_ratio_to_xfer"`       // rate by that of block transfers
	BulkRatioTCP     float64 `json:"bulk_ratio_to_tcp"`
	Jain             float64 `json:"jain_64"`
	ConnectionsRatio float64 `json:"conns_per_s_ratio"` // rate by TCP's
	DatagramsRatio   float64 `json:"datagrams_ratio"`   // rate by UDP's
	IdleBytes        float64 `json:"idle_bytes_per_conn"`
	IdleCPU          float64 `json:"idle_cpu_percent"`
	Idle             int     `json:"idle_conns"`

	RTT               float64   `json:"rtt_p50_us"`
	TCPRTT            float64   `json:"tcp_rtt_p50_us"`
	Beside            float64   `json:"beside_bulk_rtt_p50_us"`
	TCPBeside         float64   `json:"tcp_beside_bulk_rtt_p50_us"`
	BulkGbit          float64   `json:"bulk_gbit_per_s"`
	TCPBulkGbit       float64   `json:"tcp_bulk_gbit_per_s"`
	XferGbit          float64   `json:"xfer_gbit_per_s"`
	TCPJain           float64   `json:"tcp_jain_64"`
	StreamsGbit       float64   `json:"streams_gbit_per_s"`
	TCPStreamsGbit    float64   `json:"tcp_streams_gbit_per_s"`
	Connections       float64   `json:"conns_per_s"`
	TCPConnections    float64   `json:"tcp_conns_per_s"`
	Datagrams         float64   `json:"datagrams_per_s"`
	UDPDatagrams      float64   `json:"udp_datagrams_per_s"`
	RoundsRTTRatio    []float64 `json:"rounds_rtt_ratio_to_tcp"` // of each round, in order
	RoundsBesideRatio []float64 `json:"rounds_beside_bulk_ratio_to_tcp"`
	RoundsBulkRatio   []float64 `json:"rounds_bulk_ratio_to_xfer"`
	RoundsJain        []float64 `json:"rounds_jain_64"`
	RoundsConnections []float64 `json:"rounds_conns_per_s_ratio"`
	RoundsDatagrams   []float64 `json:"rounds_datagrams_ratio"`

	Rounds    int    `json:"rounds"`
	Bytes     int    `json:"message_bytes"`
	Exchanges int    `json:"exchanges"`
	XDPMode   string `json:"xdp_mode"`  // FUNet's
	BindMode  string `json:"bind_mode"` // FUNet's
}

// Socket compares connections with TCP's between hosts 0 and 1 of a lab, which nothing else uses
// meanwhile. Errors: ErrOptions, ErrFunet, and the context's. Any goroutine may call it, one at a
// time for a lab.
func Socket(ctx context.Context, l *lab.Lab, o SocketOptions) (*SocketReport, error) {
	const what = "measure sockets"
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"},
		number{&o.Connections, SocketConnections, "%d connections"}, number{&o.Megabytes, SocketMegabytes, "%d MiB"},
		number{&o.Idle, SocketIdling, "%d idle connections"})
	if err == nil && (o.Funet == nil || o.TCP == nil || o.Transfer == nil) {
		err = fmt.Errorf("%w: Funet, TCP and Transfer are required", ErrOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := &SocketReport{Rounds: o.Rounds, Bytes: PayloadBytes, Exchanges: o.Exchanges, Idle: o.Idle}
	var playing []*contender
	// each adds FUNet and TCP as contenders in one thing; also takes another figure of a run.
	each := func(name string, do SocketDo, figure func(SocketSample) float64,
		also func(tcp bool, s SocketSample)) (funet, tcp *contender) {
		of := func(name string, run func(context.Context, *lab.Lab, SocketDo) (SocketSample, error),
			isTCP bool) *contender {
			c := ours(name, func(ctx context.Context) (SocketSample, error) {
				return run(ctx, l, do)
			}, func(s SocketSample) float64 {
				if also != nil {
					also(isTCP, s)
				}
				if !isTCP {
					r.XDPMode, r.BindMode = s.XDPMode, s.BindMode
				}
				return figure(s)
			})
			playing = append(playing, c)
			return c
		}
		return of(name, o.Funet, false), of("tcp_"+name, o.TCP, true)
	}
	p50, gbit, rate := func(s SocketSample) float64 { return s.P50 }, func(s SocketSample) float64 {
		return s.Gbit
	}, func(s SocketSample) float64 { return s.PerSecond }
	rtt, tcpRTT := each("rtt", SocketRoundTrips, p50, nil)
	beside, tcpBeside := each("beside", SocketBeside, p50, nil)
	bulk, tcpBulk := each("bulk", SocketBulk, gbit, nil)
	var total [2][]float64 // of streams, FUNet's and TCP's
	jain, tcpJain := each("jain", SocketShares, func(s SocketSample) float64 {
		return s.Jain
	}, func(tcp bool, s SocketSample) {
		i := 0
		if tcp {
			i = 1
		}
		total[i] = append(total[i], s.Gbit)
	})
	conns, tcpConns := each("conns", SocketDials, rate, nil)
	datagrams, udp := each("datagrams", SocketDatagrams, rate, nil)
	xfer := ours("xfer", func(ctx context.Context) (SocketSample, error) {
		return o.Transfer(ctx, l, o.Megabytes<<20)
	}, gbit)
	var cpu []float64
	idle := ours("idle", func(ctx context.Context) (SocketSample, error) {
		return o.Funet(ctx, l, SocketIdle)
	}, func(s SocketSample) float64 {
		cpu = append(cpu, s.CPU)
		return s.BytesEach
	})
	playing = append(playing, xfer, idle)
	c := comparison{what: what, unit: "p50 us, Gbit/s, Jain's index, connections/s and bytes", rounds: o.Rounds,
		deadline: time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond + time.Duration(o.Connections+o.Idle)*20*time.Millisecond + time.Duration(o.Megabytes)*100*time.Millisecond, progress: o.Progress}
	if err := c.play(ctx, playing...); err != nil {
		return nil, err
	}
	of := func(a, b *contender) (ratio float64, rounds []float64) {
		rounds = byRound(a.figures, b.figures)
		return *median(rounds), rounds
	}
	r.RTTRatio, r.RoundsRTTRatio = of(rtt, tcpRTT)
	r.BesideRatio, r.RoundsBesideRatio = of(beside, tcpBeside)
	r.BulkRatio, r.RoundsBulkRatio = of(bulk, xfer)
	r.BulkRatioTCP, _ = of(bulk, tcpBulk)
	r.ConnectionsRatio, r.RoundsConnections = of(conns, tcpConns)
	r.DatagramsRatio, r.RoundsDatagrams = of(datagrams, udp)
	r.IdleBytes, r.IdleCPU = idle.median(), *median(cpu)
	r.Jain, r.RoundsJain, r.TCPJain = jain.median(), jain.figures, tcpJain.median()
	r.RTT, r.TCPRTT, r.Beside, r.TCPBeside = rtt.median(), tcpRTT.median(), beside.median(), tcpBeside.median()
	r.BulkGbit, r.TCPBulkGbit, r.XferGbit = bulk.median(), tcpBulk.median(), xfer.median()
	r.StreamsGbit, r.TCPStreamsGbit = *median(total[0]), *median(total[1])
	r.Connections, r.TCPConnections, r.Datagrams, r.UDPDatagrams = conns.median(), tcpConns.median(),
		datagrams.median(), udp.median()
	return r, nil
}

// WriteTable prints the report for people.
func (r *SocketReport) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		"connections of package socket beside Go's TCP, one program, the same lab; medians of %d rounds; XDP %s, %s\n",
		r.Rounds, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-38s %10s %10s %8s  %s\n", "", "FUNet", "TCP", "ratio", "by round")
	line := func(name string, funet, tcp, ratio float64, rounds []float64) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-38s %10.2f %10.2f %8.3f  %s", name, funet, tcp, ratio,
			ratios(rounds)), " ") + "\n")
	}
	line(fmt.Sprintf("round trip of %d bytes, p50 us", r.Bytes), r.RTT, r.TCPRTT, r.RTTRatio, r.RoundsRTTRatio)
	line("beside a full connection, p50 us", r.Beside, r.TCPBeside, r.BesideRatio, r.RoundsBesideRatio)
	line("bulk, Gbit/s", r.BulkGbit, r.TCPBulkGbit, r.BulkRatioTCP, nil)
	line(fmt.Sprintf("%d streams, Gbit/s", SocketStreams), r.StreamsGbit, r.TCPStreamsGbit,
		r.StreamsGbit/r.TCPStreamsGbit, nil)
	line("Jain's index of their shares", r.Jain, r.TCPJain, r.Jain/r.TCPJain, nil)
	line("connections a second", r.Connections, r.TCPConnections, r.ConnectionsRatio, r.RoundsConnections)
	line("datagrams a second (UDP)", r.Datagrams, r.UDPDatagrams, r.DatagramsRatio, r.RoundsDatagrams)
	fmt.Fprintf(&b, "%d idle connections: %.1f KiB each, and both processes together use %.2f %% of a processor\n",
		r.Idle, r.IdleBytes/1024, r.IdleCPU)
	fmt.Fprintf(&b, "bulk by blocks as bench xfer moves them, at the same MTU: %.2f Gbit/s, ratio %.3f (%s)\n",
		r.XferGbit, r.BulkRatio, ratios(r.RoundsBulkRatio))
	_, err := io.WriteString(w, b.String())
	return err
}
