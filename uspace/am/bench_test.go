package am_test

// This file measures what the library costs the processor per message, without a card:
// the benchmark itself takes sent slots off the queues and puts slots to receive there,
// outside the time that counts. Run it with -count=10 and give the output to benchstat.
//
// Cycles are time by the processor's clock as /proc/cpuinfo has it ("cpu MHz" of the first
// processor), and are left out where it has none.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// megahertz returns the processor's clock, or 0.
func megahertz() float64 {
	text, _ := os.ReadFile("/proc/cpuinfo") // none: nothing is found in it
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cpu MHz" {
			mhz, _ := strconv.ParseFloat(strings.TrimSpace(value), 64) // no number: 0
			return mhz
		}
	}
	return 0
}

// benchSlots is the size of each queue, as that of a program.
const benchSlots = 1024

// bare is node 0 of three, whose card is the test.
func bare(b testing.TB) (*am.Endpoint, *funi.Card) { return born(b, 0) }

// born is bare with the seed of a life.
func born(b testing.TB, seed uint64) (*am.Endpoint, *funi.Card) {
	memory, err := funi.NewMemory(benchSlots)
	if err != nil {
		b.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		b.Fatal(err)
	}
	card, err := funi.Attach(memory)
	if err != nil {
		b.Fatal(err)
	}
	e, err := am.New(iface, 0, 3, func() {}, seed)
	if err != nil {
		b.Fatal(err)
	}
	return e, card
}

// batches runs work for b.N messages and reports the time that it took. Before and after
// each batch something may be done that does not count. A batch is half of a queue: so
// much room there always is, as receivers give slots back by halves.
func batches(b *testing.B, before, work, after func(n int)) {
	b.ReportAllocs()
	var took time.Duration
	for left := b.N; left > 0; {
		n := min(left, benchSlots/2)
		before(n)
		begin := time.Now()
		work(n)
		took += time.Since(begin)
		after(n)
		left -= n
	}
	ns := float64(took.Nanoseconds()) / float64(b.N)
	b.ReportMetric(ns, "ns/op")
	if mhz := megahertz(); mhz > 0 {
		b.ReportMetric(ns*mhz/1000, "cycles/op")
	}
}

func nothing(int) {}

// BenchmarkRequest is cmam_4 and cmam_n of thesis appendix A: the time of the call.
func BenchmarkRequest(b *testing.B) {
	words := make([]uint32, am.MaxWords)
	for _, c := range []struct {
		name string
		send func(e *am.Endpoint) error
	}{
		{"four", func(e *am.Endpoint) error { return e.Request4(1, 0, 1, 2, 3, 4) }},
		{"n=1", func(e *am.Endpoint) error { return e.Request(1, 0, words[:1]...) }},
		{"n=20", func(e *am.Endpoint) error { return e.Request(1, 0, words...) }},
		{"indirect", func(e *am.Endpoint) error { return e.RequestIndirect4(1, 0, 1, 2, 3, 4) }},
		{"xfer4", func(e *am.Endpoint) error { return e.Xfer4(1, 0, 1, 2, 3, 4) }},
		{"mfer", func(e *am.Endpoint) error { return e.Mfer(1, 0, segment, segment, 16) }},
		{"bytes=16", func(e *am.Endpoint) error { return e.SendBytes(1, 0, blank[:16]) }},
		{"bytes=13", func(e *am.Endpoint) error { return e.SendBytes(1, 0, blank[:13]) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, card := bare(b)
			batches(b, nothing, func(n int) {
				for range n {
					if err := c.send(e); err != nil {
						b.Fatal(err)
					}
				}
			}, func(n int) {
				card.Retire(funi.Request, n)
				card.Publish()
			})
		})
	}
}

// BenchmarkReceive is the time per message of Poll, with a queue full of them and handlers
// that count: the receive overhead of thesis 6.2.1.
func BenchmarkReceive(b *testing.B) {
	for _, c := range []struct {
		name  string
		level funi.Level
		typ   uint16
		words int
	}{
		{"four", funi.Request, 0, 4}, {"reply", funi.Reply, 0, 4}, {"n=1", funi.Request, 3, 1},
		{"n=20", funi.Request, 3, 20},
		{"indirect", funi.Request, 1, 4}, {"xfer4", funi.Request, 2, 4}, {"bytes=16", funi.Request, 18, 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, card := bare(b)
			got := 0
			var box counting
			object, err := e.AddObject(&box)
			if err != nil {
				b.Fatal(err)
			}
			if err := e.Handle(0, func(m *am.Message) { got += len(m.Words) }); err != nil {
				b.Fatal(err)
			}
			if err := e.HandleBytes(0, func(_ *am.Message, b []byte) error { got += len(b); return nil }); err != nil {
				b.Fatal(err)
			}
			if err := e.Share(func(funi.Segment) error {
				return nil
			}, funi.Segment{Base: segment, Memory: make([]byte, 1<<16), Rights: funi.Destination}); err != nil {
				b.Fatal(err)
			}
			var place am.Place
			batches(b, func(n int) {
				if place, err = e.OpenSegment(segment, 1<<16, nil, nil); err != nil {
					b.Fatal(err)
				}
				first := map[uint16]uint32{0: 0, 1: object, 2: uint32(place), 3: 0, 18: 0}[c.typ]
				for range n {
					s := card.Vacant(c.level)
					s.SetHeader(funi.NewHeader(0, c.typ, 1+c.words))
					s[funi.PayloadWord], s[funi.SourceWord] = first, 1
					card.Deliver(c.level)
				}
				card.Publish()
			}, func(n int) {
				for n > 0 {
					some, err := e.Poll()
					if err != nil {
						b.Fatal(err)
					}
					n -= some
				}
			}, func(int) {
				if _, err := e.CloseSegment(place); err != nil {
					b.Fatal(err)
				}
			})
			if e.Unknown() > 0 {
				b.Fatalf("%d messages were for nobody", e.Unknown())
			}
		})
	}
}

// BenchmarkReply is the time per message of Poll with a handler that replies.
func BenchmarkReply(b *testing.B) {
	e, card := bare(b)
	if err := e.Handle(0, func(m *am.Message) {
		if err := m.Reply4(0, m.Words[0], m.Words[1], m.Words[2], m.Words[3]); err != nil {
			b.Fatal(err)
		}
	}); err != nil {
		b.Fatal(err)
	}
	batches(b, func(n int) {
		for range n {
			s := card.Vacant(funi.Request)
			s.SetHeader(funi.NewHeader(0, 0, 5))
			s[funi.PayloadWord], s[funi.SourceWord] = 0, 1
			card.Deliver(funi.Request)
		}
		card.Publish()
	}, func(n int) {
		if some, err := e.Poll(); some != n || err != nil {
			b.Fatalf("handled %d of %d: %v", some, n, err)
		}
	}, func(n int) {
		card.Retire(funi.Reply, n)
		card.Publish()
	})
}

// BenchmarkRoundTrip is a request and its reply through two cards in memory: everything
// that a processor does for them at both ends.
func BenchmarkRoundTrip(b *testing.B) {
	e, _ := pair(b, nil)
	answered := 0
	for i := range e {
		// it may here
		if err := first(e[i].Handle(0, func(m *am.Message) { _ = m.Reply4(1, 1, 2, 3, 4) }),
			e[i].Handle(1, func(*am.Message) { answered++ })); err != nil {
			b.Fatal(err)
		}
	}
	batches(b, nothing, func(n int) {
		for range n {
			if err := e[0].Request4(1, 0, 1, 2, 3, 4); err != nil {
				b.Fatal(err)
			}
			for want := answered + 1; answered < want; {
				for i := range e {
					if _, err := e[i].Poll(); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}, nothing)
}

// BenchmarkCall is a call of 64 bytes and its answer through two cards in memory, as
// BenchmarkRoundTrip.
func BenchmarkCall(b *testing.B) {
	e, _ := pair(b, nil)
	if err := e[1].HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil }); err != nil {
		b.Fatal(err)
	}
	answered := 0
	done := func([]byte, error) { answered++ }
	request := make([]byte, 64)
	batches(b, nothing, func(n int) {
		for range n {
			if _, err := e[0].StartCall(1, 0, request, done); err != nil {
				b.Fatal(err)
			}
			for want := answered + 1; answered < want; {
				for i := range e {
					if _, err := e[i].Poll(); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}, nothing)
}

// BenchmarkTagged is a message with a tag through two cards in memory, from its start to the end of
// its receive.
func BenchmarkTagged(b *testing.B) {
	for _, size := range []int{16, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			e, _ := pair(b, nil)
			from, to := make([]byte, size), make([]byte, size)
			ended := 0
			sent, received := func(error) { ended++ }, func(am.Received, error) { ended++ }
			b.SetBytes(int64(size))
			for b.Loop() {
				ended = 0
				_, err1 := e[1].StartRecv(0, 1, to, received)
				_, err2 := e[0].StartSendTag(1, 1, from, sent)
				if err := first(err1, err2); err != nil {
					b.Fatal(err)
				}
				for ended < 2 {
					for i := range e {
						if _, err := e[i].Poll(); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
}

// BenchmarkWide is BenchmarkTagged of wide messages, by receives that ignore bits as those of MPI
// libraries do, with the given number of others unexpected.
func BenchmarkWide(b *testing.B) {
	for _, c := range []struct{ size, unexpected int }{{16, 0}, {1000, 0}, {16, 10_000}} {
		b.Run(fmt.Sprintf("%d/unexpected=%d", c.size, c.unexpected), func(b *testing.B) {
			e, _ := pair(b, nil)
			from, to := make([]byte, c.size), make([]byte, c.size)
			ended := 0
			sent, received := func(error) { ended++ }, func(am.Received, error) { ended++ }
			poll := func(want int) {
				for ended < want {
					for i := range e {
						if _, err := e[i].Poll(); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			for i := range c.unexpected {
				if _, err := e[0].StartSendWide(1, am.Wide{Tag: uint64(i + 2)}, nil, sent); err != nil {
					b.Fatal(err)
				}
			}
			poll(c.unexpected)
			b.SetBytes(int64(c.size))
			for b.Loop() {
				ended = 0
				_, err1 := e[1].StartRecvWide(wide(0, 0, 1, 1<<60), to, received)
				_, err2 := e[0].StartSendWide(1, am.Wide{Tag: 1}, from, sent)
				if err := first(err1, err2); err != nil {
					b.Fatal(err)
				}
				poll(2)
			}
		})
	}
}

// BenchmarkMebibyte is 1 MiB from one endpoint to another through two cards in memory: as a
// transfer with a notice, and as a message of bytes, read where it is or copied.
func BenchmarkMebibyte(b *testing.B) {
	const size = 1 << 20
	for _, name := range []string{"transfer", "message", "message copied"} {
		b.Run(name, func(b *testing.B) {
			e, cards := joined(b, nil)
			arrived, ended := 0, 0
			source := make([]byte, size)
			block := funi.Transfer{Source: 0x1000_0000, Destination: 0x2000_0000, Words: size / 4}
			err := first(cards[0].Register(funi.Segment{Base: block.Source, Memory: source, Rights: funi.Source}),
				cards[1].Register(funi.Segment{Base: block.Destination, Memory: make([]byte, size),
					Rights: funi.Destination}),
				e[1].HandleNotice(0, func(*am.Message, funi.Notice) { arrived++ }),
				e[1].HandleBytes(0, func(*am.Message, []byte) error { arrived++; return nil }))
			if err != nil {
				b.Fatal(err)
			}
			for i := range e {
				m := am.Memory{Limit: 16 << 20, Now: func() int64 {
					return 0
				}, Segment: func(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
					memory := make([]byte, bytes)
					return memory, cards[i].Register(funi.Segment{Base: base, Memory: memory, Rights: rights})
				}}
				if name == "message" {
					m.Register, m.Unregister, m.Withdraw = cards[i].Register, cards[i].Unregister, cards[i].Withdraw
				}
				if err := e[i].UseMemory(m); err != nil {
					b.Fatal(err)
				}
			}
			done := func(err error) {
				if ended++; err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(size)
			for n := range b.N {
				var err error
				if name == "transfer" {
					err = e[0].Transfer(1, 0, block)
				} else {
					_, err = e[0].StartBytes(1, 0, source, done)
				}
				for err == nil && (arrived <= n || name != "transfer" && ended <= n ||
					name == "transfer" && !e[0].Retrieved(funi.Request)) {
					_, err1 := e[0].Poll()
					_, err2 := e[1].Poll()
					err = first(err1, err2)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
