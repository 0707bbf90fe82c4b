package tests

// This file tests funet bench mpi and funet bench ofi with the provider, on labs.

import (
	"encoding/json"
	"testing"

	"github.com/funet/funet/tests/long"
)

// Rule: both measure over the provider and over TCP, and print the figures that scripts look for.
func TestProviderMeasured(t *testing.T) {
	long.Test(t)
	if _, err := provider(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"mpi": {"pingpong_8_ratio_to_btl_tcp", "pingpong_8_ratio_to_tcp_rxm", "allreduce_8_ratio_to_btl_tcp",
			"put_8_ratio_to_osc_tcp", "get_8_ratio_to_osc_tcp"},
		"ofi": {"funet_rtt_mean_us", "ratio_to_funet_direct", "ratio_to_tcp_rxm", "ratio_to_udp_rxd"},
	} {
		out := funet(t, "bench", name, "--lab", "2", "--rounds", "1", "--exchanges", "200", "--json").ok()
		var figures map[string]any
		if err := json.Unmarshal([]byte(out), &figures); err != nil {
			t.Fatalf("bench %s printed %q: %v", name, out, err)
		}
		for _, key := range want {
			if v, ok := figures[key].(float64); !ok || !(v > 0) {
				t.Errorf("bench %s: %s is %v", name, key, figures[key])
			}
		}
	}
}
