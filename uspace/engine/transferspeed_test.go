package engine_test

// This file measures transfers: two cards joined by cables in memory, no kernel.

import (
	"fmt"
	"testing"

	testbed "github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// BenchmarkTransfer moves blocks of 256 KiB; both cards run on one processor, so the
// cost is that of sender and receiver together.
func BenchmarkTransfer(b *testing.B) {
	for _, mtu := range []int{1500, 3498, 9000} {
		for _, words := range []int{16, 1 << 16} {
			b.Run(fmt.Sprintf("mtu=%d/words=%d", mtu, words), func(b *testing.B) { benchmarkTransfer(b, mtu, words) })
		}
	}
}

func benchmarkTransfer(b *testing.B, mtu, words int) {
	ports := testbed.Cables(256, 14+mtu)
	var cards [2]*engine.Card
	var procs [2]*funi.Interface
	memory := make([]byte, 1<<18)
	for i := range cards {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Routes = uint16(i), uint32(i+1), []uint32{0, 1}
		cfg.Ports = []port.Port{ports[i]}
		cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: address(1 - i), Local: address(i)}}
		card, err := engine.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		m, err := funi.NewMemory(1024)
		if err != nil {
			b.Fatal(err)
		}
		if procs[i], err = funi.Initialize(m); err != nil {
			b.Fatal(err)
		}
		x, err := card.Attach(m, gid, uint16(i), jobTag)
		if err != nil {
			b.Fatal(err)
		}
		if err := x.Register(funi.Segment{Base: area, Memory: memory, Rights: funi.Source | funi.Destination}); err !=
			nil {
			b.Fatal(err)
		}
		if i == 0 {
			memory = make([]byte, len(memory))
		}
		cards[i] = card
	}
	b.SetBytes(int64(4 * words))
	now, sent, got := int64(1), 0, 0
	for b.Loop() {
		for got <= sent-64 || !request(procs[0], funi.Request, 1,
			funi.Transfer{Source: area, Destination: area, Words: words}) {
			now += 1000
			cards[0].Step(now)
			cards[1].Step(now)
			for procs[1].Receive(funi.Request) != nil {
				procs[1].Release(funi.Request)
				got++
			}
		}
		sent++
	}
}
