package bench

// This file measures UCX's active messages and writes over TCP, by ucx_perftest.

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// runUCX measures active messages.
func runUCX(ctx context.Context, s *session) (sample, error) {
	return s.ucx(ctx, "ucp_am_lat", payload, s.exchanges, warmUp)
}

// ucx runs two series of a test of half round trips on one connection: for p50, then for p99. A
// series reports one percentile only. Server and client read the same batch file.
func (s *session) ucx(ctx context.Context, test string, size, exchanges, warmUp int) (sample, error) {
	var text string
	for _, rank := range []int{50, 99} {
		text += fmt.Sprintf("p%d -t %s -s %d -n %d -w %d -R %d\n", rank, test, size, exchanges, warmUp, rank)
	}
	printed, err := s.ucxBatch(ctx, text)
	if err != nil {
		return sample{}, err
	}
	return parseUCX(printed)
}

// ucxBatch runs the tests in the lines of a batch file, and returns the client's output: CSV.
func (s *session) ucxBatch(ctx context.Context, lines string) (string, error) {
	batch := filepath.Join(s.dir, "ucx-batch")
	if err := os.WriteFile(batch, []byte(lines), 0o600); err != nil {
		return "", fmt.Errorf("write the batch file of ucx_perftest: %w", err)
	}
	port := s.newPort()
	server := []string{"ucx_perftest", "-p", strconv.Itoa(port), "-b", batch}
	client := []string{"ucx_perftest", s.address(1), "-p", strconv.Itoa(port), "-b", batch, "-v"}
	return s.exchange(ctx, "tcp", port, []string{"UCX_TLS=tcp,self"}, server, client)
}

// parseUCX reads both series. Times are half round trips in us.
func parseUCX(text string) (sample, error) {
	half := series(text, "_percentile_lat")
	if half["p50"] == 0 || half["p99"] == 0 {
		return sample{}, fmt.Errorf("ucx_perftest printed no latencies p50 and p99: %.80q", text)
	}
	return sample{P50: 2 * half["p50"], P99: 2 * half["p99"]}, nil
}

// series returns the figures above 0 of all series in the CSV of a batch. It has a line of titles,
// then a line for each series, which begins with its name. The figures are in the column whose
// title ends as given.
func series(text, title string) map[string]float64 {
	found := map[string]float64{}
	column := -1
	for line := range strings.Lines(text) {
		f, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			continue // warnings of the library, which may have any form
		}
		if i := slices.IndexFunc(f, func(s string) bool { return strings.HasSuffix(s, title) }); i >= 0 {
			column = i
		}
		if column >= 0 && column < len(f) {
			if v, err := strconv.ParseFloat(f[column], 64); err == nil && v > 0 {
				found[f[0]] = v
			}
		}
	}
	return found
}
