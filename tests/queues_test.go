package tests

// This file runs programs on interfaces of several queues.

import (
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestQueuesOfPrograms: programs whose frames leave on all queues, or all on another than the
// first, where they also arrive (veth in native mode), in both forms in which frames travel; a
// lab's queues are checked as its other settings are.
func TestQueuesOfPrograms(t *testing.T) {
	long.Test(t)
	for _, queues := range [][]string{{"--queues", "2"}, {"--queues", "3", "--queue", "2"}} {
		for _, encap := range []string{"ethernet", "udp"} {
			for _, c := range [][]string{
				{"pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100"},
				{"matmul", "--lab", "3", "--size", "60"},
				{"transfer", "--lab", "2", "--bytes", "4194304", "--block", "65536", "--mtu", "9000", "--jumbo"},
				{"flood", "--lab", "2", "--messages", "20000", "--stalls", "2", "--stall", "20ms"},
			} {
				p := funet(t, append(append(c, "--json", "--xdp", "native", "--encap", encap), queues...)...)
				out := p.ok()
				if c[0] == "matmul" && !decode[matmul](t, out).Verified {
					t.Errorf("%v, %s: %s", queues, encap, out)
				}
				if c[0] == "pingpong" && strings.Contains(out, "frames leave on queue 2") != (len(queues) == 4) {
					t.Errorf("%v, %s: %s", queues, encap, out)
				}
				(&holdings{}).gone(t, p.mark)
			}
		}
	}
}
