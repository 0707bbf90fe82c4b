package bench

// Rats and sockets: the reports. FUNet itself is the test's.

import (
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
)

// Ratios are those of each round; the time of a block follows from the rate of blocks.
func TestRats(t *testing.T) {
	us := func(v float64) node { return node{sample: sample{P50: v}} }
	r := contest{benchmark: &keyed{exchanges: 20}, rounds: 1, nodes: same(map[string]node{program.RatsTags: us(4),
		program.RatsCalls: us(6), program.RatsBulk: us(20), "pingpong": us(5), "transfer": {Goodput: 8.192}})}.must(t,
		newLab(t, lab.Options{}))
	says(t, r, map[string]any{"tagged_ratio_to_am": 0.8, "call_ratio_to_am": 1.2, "bulk16k_ratio_to_xfer": 1.25,
		"xfer16k_us": 16.0, "rounds_tagged_ratio_to_am": []any{0.8}, "exchanges": 20.0, "xdp_mode": "generic"})
	if own := r["own_calls"].([]any); len(own) != 4 {
		t.Errorf("calls %v", own)
	}
}

// FUNet's figures stand beside TCP's, which come from the same program.
func TestSockets(t *testing.T) {
	o := &sockets{exchanges: 20, connections: 10, idle: 10, megabytes: 1}
	r := contest{benchmark: o, rounds: 2, nodes: same(map[string]node{
		program.SocketRoundTrips: {sample: sample{P50: 5}}, program.SocketBeside: {sample: sample{P50: 9}},
		program.SocketBulk: {Gbit: 4}, program.SocketStreams: {Gbit: 3, Jain: 0.9},
		program.SocketConnections: {PerSecond: 1000}, program.SocketDatagrams: {PerSecond: 1e6},
		program.SocketIdle: {BytesEach: 2048, CPU: 0.5}, "transfer": {Goodput: 8}})}.must(t, newLab(t, lab.Options{}))
	says(t, r, map[string]any{"rtt_ratio_to_tcp": 1.0, "beside_bulk_ratio_to_tcp": 1.0, "bulk_ratio_to_xfer": 0.5,
		"bulk_ratio_to_tcp": 1.0, "jain_64": 0.9, "tcp_jain_64": 0.9, "conns_per_s": 1000.0, "datagrams_per_s": 1e6,
		"udp_datagrams_per_s": 1e6, "streams_gbit_per_s": 3.0, "idle_bytes_per_conn": 2048.0, "idle_cpu_percent": 1.0,
		"idle_conns": 10.0, "rounds_jain_64": []any{0.9, 0.9}, "rtt_p50_us": 5.0, "message_bytes": 64.0,
		"xdp_mode": "generic", "bind_mode": "copy"})
}
