package bench

// This file runs iperf3 with one TCP stream: the rate at which the kernel moves bytes between
// hosts.

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// iperf3Block is the number of bytes in one write of iperf3: its default for TCP.
const iperf3Block = 128 << 10

var iperf3Needs = []tool{{"iperf3", "iperf3"}, taskset}

// streamed has the measurements of one run of iperf3.
type streamed struct {
	Gbit          float64 // gigabits of payload a second that arrived
	Retransmitted uint64  // TCP segments
	Control       string  // the sender's congestion control
}

// runIperf3 sends from host 0 to host 1 for a number of seconds. Its option for interval 0 keeps
// the report short.
func runIperf3(ctx context.Context, s *session, seconds int) (streamed, error) {
	port := s.newPort()
	at := strconv.Itoa(port)
	text, err := s.exchange(ctx, "tcp", port, nil,
		[]string{"iperf3", "-4", "-s", "-1", "-p", at},
		[]string{"iperf3", "-4", "-c", s.address(1), "-p", at, "-t", strconv.Itoa(seconds), "-l",
			strconv.Itoa(iperf3Block), "-i", "0", "-J"})
	if err != nil {
		return streamed{}, err
	}
	return parseIperf3(text)
}

// parseIperf3 reads a client's JSON. Its object sum_received has the receiver's counts.
func parseIperf3(text string) (streamed, error) {
	var r struct {
		Error string `json:"error"`
		End   struct {
			Sent struct {
				Retransmits uint64 `json:"retransmits"`
			} `json:"sum_sent"`
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Control string `json:"sender_tcp_congestion"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return streamed{}, fmt.Errorf("iperf3 printed no JSON: %.80q: %w", text, err)
	}
	if r.Error != "" {
		return streamed{}, fmt.Errorf("iperf3: %.200s", r.Error)
	}
	if !(r.End.Received.BitsPerSecond > 0) {
		return streamed{}, fmt.Errorf("iperf3 printed no end.sum_received.bits_per_second: %.80q", text)
	}
	return streamed{Gbit: r.End.Received.BitsPerSecond / 1e9, Retransmitted: r.End.Sent.Retransmits,
		Control: r.End.Control}, nil
}
