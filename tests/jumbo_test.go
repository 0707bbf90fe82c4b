package tests

// This file tests jumbo frames end to end: frames of several buffers between real
// processes, with and without losses, and beside nodes that have none.

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/funet/funet/tests/long"
)

// transfer is the JSON document of node 0.
type transfer struct {
	Bytes   int    `json:"bytes"`
	Frame   int    `json:"frame_bytes"`
	XDPMode string `json:"xdp_mode"`
	Card    struct {
		Sent          int `json:"frames_sent"`
		Retransmitted int `json:"frames_retransmitted"`
	} `json:"card"`
}

// TestTransferJumbo: with --jumbo a transfer, whose every byte the program checks, travels in
// frames as long as the MTU allows (design idea 7), in both modes, also where rings overflow.
func TestTransferJumbo(t *testing.T) {
	long.Test(t)
	const bytes = 64 << 20
	for _, c := range []struct {
		mtu   int
		lossy bool
	}{{9000, false}, {9000, true}, {65535, false}} {
		for _, mode := range []string{"generic", "native"} {
			t.Run(fmt.Sprintf("MTU %d lossy %v %s", c.mtu, c.lossy, mode), func(t *testing.T) {
				args := []string{"transfer", "--lab", "2", "--mtu", strconv.Itoa(c.mtu), "--jumbo", "--bytes",
					strconv.Itoa(bytes), "--xdp", mode, "--json"}
				if c.lossy {
					args = append(args, "--rx-ring", "32", "--fill-frames", "16")
				}
				p := funet(t, args...)
				r := decode[transfer](t, p.ok())
				if r.Bytes != bytes || r.Frame != c.mtu+14 || r.XDPMode != mode {
					t.Errorf("got %+v", r)
				}
				if long := bytes / (r.Card.Sent - r.Card.Retransmitted); long < c.mtu/2 {
					t.Errorf("%d bytes a frame, want nearly %d: %+v", long, r.Frame, r)
				}
				if c.lossy && r.Card.Retransmitted == 0 {
					t.Errorf("nothing was lost, so nothing was tested: %+v", r)
				}
				(&holdings{}).gone(t, p.mark)
			})
		}
	}
}

// TestProgramsJumbo: the other programs run with --jumbo as without, at any MTU.
func TestProgramsJumbo(t *testing.T) {
	long.Test(t)
	t.Run("matmul", func(t *testing.T) { matMulLab(t, 3, 100, "--mtu", "9000", "--jumbo", "--xdp", "native") })
	for _, mode := range []string{"auto", "native", "generic"} {
		t.Run("pingpong "+mode, func(t *testing.T) {
			got := []string{mode}
			if mode == "auto" {
				got = []string{"native", "generic"}
			}
			r := decode[pingpong](t, funet(t, "pingpong", "--lab", "2", "--jumbo", "--exchanges", "500", "--warm-up",
				"100", "--xdp", mode, "--json").ok())
			r.check(t, 500, got...)
		})
	}
}

// TestJumboRefused: where jumbo frames cannot be had, or are needed and were not asked for, the
// command says so and does nothing else (design: never a silent fallback).
func TestJumboRefused(t *testing.T) {
	funet(t, "transfer", "--lab", "2", "--mtu", "9000", "--jumbo", "--xdp", "generic", "--bind",
		"zero-copy").fails("zero-copy", "jumbo frames", "do without on every node")
	funet(t, "transfer", "--lab", "2", "--mtu", "9000", "--xdp", "native").fails("not supported",
		"use jumbo frames on every node")
	funet(t, "transfer", "--lab", "2", "--mtu", "9000", "--jumbo", "--xdp", "generic", "--rx-ring",
		"2").fails("ring too small", "9014 bytes", "larger rings")
}

// TestProbeJumbo: probe says whether --jumbo works; on veth it does.
func TestProbeJumbo(t *testing.T) {
	long.Test(t)
	name, _ := namedLab(t)
	r := decode[struct {
		Answers map[string]string `json:"answers"`
	}](t, funet(t, "lab", "exec", "--name", name, "0", "--", command, "probe", "fu0", "--json").ok())
	if r.Answers["jumbo"] != "yes" {
		t.Errorf("answers %v", r.Answers)
	}
}
