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
	column := -1
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if column >= 0 && column < len(f) {
			half, err := strconv.ParseFloat(f[column], 64)
			if err == nil && half > 0 {
				return sample{P50: 2 * half}, nil
			}
		}
		if i := slices.Index(f, "usec/xfer"); i >= 0 {
			column = i
		}
	}
	return sample{}, fmt.Errorf("fi_pingpong printed no usec/xfer: %.80q", text)
}
