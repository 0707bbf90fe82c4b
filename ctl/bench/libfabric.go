package bench

// This file measures libfabric's reliable datagrams over UDP and over TCP, by fi_pingpong.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// libfabric returns the function that runs one provider.
func libfabric(provider string) func(context.Context, *session) (sample, error) {
	return func(ctx context.Context, s *session) (sample, error) {
		text, err := s.fabric(ctx, pingpongOver(provider, s.exchanges))
		if err != nil {
			return sample{}, err
		}
		return parsePingpong(text)
	}
}

// pingpongOver is fi_pingpong's command over a provider.
func pingpongOver(provider string, exchanges int) []string {
	return []string{"fi_pingpong", "-p", provider, "-e", "rdm", "-I", strconv.Itoa(exchanges), "-S", strconv.Itoa(payload)}
}

// fabric runs one of libfabric's tests, the server on host 1 and the client on host 0, and returns
// what the client prints. They find each other by a connection of their own.
func (s *session) fabric(ctx context.Context, argv []string) (string, error) {
	port := s.newPort()
	return s.exchange(ctx, "tcp", port, nil, append(slices.Clone(argv), "-B", strconv.Itoa(port)),
		append(slices.Clone(argv), "-P", strconv.Itoa(port), s.address(1)))
}

// parsePingpong reads fi_pingpong's table. The column usec/xfer is the mean half round trip.
func parsePingpong(text string) (sample, error) {
	half, err := column(text, "fi_pingpong", "usec/xfer")
	return sample{P50: 2 * half}, err
}

// column returns the first figure above 0 below a title in the table that a tool prints.
func column(text, tool, title string) (float64, error) {
	at := -1
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if at >= 0 && at < len(f) {
			if v, err := strconv.ParseFloat(f[at], 64); err == nil && v > 0 {
				return v, nil
			}
		}
		if i := slices.Index(f, title); i >= 0 {
			at = i
		}
	}
	return 0, fmt.Errorf("%s printed no %s: %.80q", tool, title, text)
}
