package funi_test

// This file runs the two ends on two goroutines.

import (
	"runtime"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
)

// Rule: an index is stored with release order after the slots that it covers and
// loaded with acquire order (doc.go), so a process and a card on two cores
// exchange packets without another word of synchronisation. Each packet goes from
// the process to the card and back on the same level, and returns ride along.
func TestTwoGoroutines(t *testing.T) {
	const messages = 20000
	for _, slots := range []int{2, 8, 256} {
		i, c, _ := pair(t, slots)
		stop := time.Now().Add(2 * time.Minute)
		go func() {
			for done := 0; done < 2*messages && time.Now().Before(stop); {
				idle := true
				for l := range funi.Level(2) {
					n := c.Pending(l)
					taken := 0
					for taken < n {
						out := c.Vacant(l)
						if out == nil {
							break
						}
						*out = *c.Slot(l, taken)
						c.Deliver(l)
						taken++
					}
					if taken > 0 {
						c.Retire(l, taken)
						c.Return(funi.Returned{Level: l, Word: uint32(taken)})
						done += taken
						idle = false
					}
				}
				c.Publish()
				if idle {
					runtime.Gosched()
				}
			}
		}()
		var sent, got [2]uint32
		returns := uint32(0)
		for got != [2]uint32{messages, messages} {
			idle := true
			for l := range funi.Level(2) {
				if s := i.Reserve(l); s != nil && sent[l] < messages {
					s.SetHeader(funi.NewHeader(1, uint16(l), 2))
					s[funi.PayloadWord], s[funi.PayloadWord+1] = sent[l], ^sent[l]
					sent[l]++
					i.Commit(l)
					idle = false
				}
				if s := i.Receive(l); s != nil {
					if w := s.Payload(); w[0] != got[l] || w[1] != ^got[l] || s.Header().Type() != uint16(l) {
						t.Fatalf("%d slots, level %v: got %v, want message %d", slots, l, w, got[l])
					}
					got[l]++
					i.Release(l)
					idle = false
				}
			}
			for r, ok := i.NextReturn(); ok; r, ok = i.NextReturn() {
				returns += r.Word
			}
			if idle {
				if time.Now().After(stop) {
					t.Fatalf("%d slots: stuck at %v of %v sent", slots, got, sent)
				}
				runtime.Gosched()
			}
		}
		for r, ok := i.NextReturn(); ok; r, ok = i.NextReturn() {
			returns += r.Word
		}
		if returns > 2*messages || returns < 2*messages && i.ReturnsLost() == 0 {
			t.Fatalf("%d slots: returns tell of %d packets, %d returns lost", slots, returns, i.ReturnsLost())
		}
	}
}
