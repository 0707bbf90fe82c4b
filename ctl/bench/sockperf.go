package bench

// This file measures sockperf in ping-pong mode over UDP.

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// runSockperf runs for a second, the least time that sockperf takes; it cannot count messages. It
// warms up by itself.
func runSockperf(ctx context.Context, s *session) (sample, error) {
	port := s.newPort()
	at := []string{"-i", s.address(1), "-p", strconv.Itoa(port), "--nonblocked"}
	server := append([]string{"sockperf", "server"}, at...)
	client := append([]string{"sockperf", "ping-pong", "-m", strconv.Itoa(payload), "-t", "1"}, at...)
	text, err := s.exchange(ctx, "udp", port, nil, server, client)
	if err != nil {
		return sample{}, err
	}
	return parseSockperf(text)
}

var sockperfPercentile = regexp.MustCompile(`(?m)percentile +([0-9.]+) += +([0-9.]+)`)

// parseSockperf reads "sockperf: ---> percentile 50.000 =    4.581", a half round trip in us.
func parseSockperf(text string) (sample, error) {
	found := map[float64]float64{}
	for _, m := range sockperfPercentile.FindAllStringSubmatch(text, -1) {
		rank, err1 := strconv.ParseFloat(m[1], 64)
		value, err2 := strconv.ParseFloat(m[2], 64)
		if err1 == nil && err2 == nil {
			found[rank] = 2 * value
		}
	}
	if found[50] == 0 || found[99] == 0 {
		return sample{}, fmt.Errorf("sockperf printed no percentiles 50 and 99: %.80q", text)
	}
	return sample{P50: found[50], P99: found[99]}, nil
}
