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
		port := s.newPort()
		common := []string{"fi_pingpong", "-p", provider, "-e", "rdm", "-I", strconv.Itoa(s.exchanges), "-S",
			strconv.Itoa(payload)}
		server := append(slices.Clone(common), "-B", strconv.Itoa(port))
		client := append(slices.Clone(common), "-P", strconv.Itoa(port), s.address(1))
		text, err := s.exchange(ctx, "tcp", port, nil, server, client)
		if err != nil {
			return sample{}, err
		}
		return parsePingpong(text)
	}
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
