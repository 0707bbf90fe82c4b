package chaos

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: only a greeting of a life that has ended haunts, the card where it arrives, and not for
// ever.
func TestGhosts(t *testing.T) {
	now := int64(5)
	g := newGhosts(3, func() int64 { return now })
	greeting := func(incarnation uint32) []byte {
		b := make([]byte, arctic.GreetingEnd)
		h := arctic.Header{Hello: true, SourceCard: 1}
		h.Encode(b)
		arctic.Seal(b, arctic.PutGreeting(b, &arctic.Greeting{Incarnation: incarnation, Nonce: 1}))
		return b
	}
	g.born(1, 10)
	old := greeting(10)
	g.arrives(0, old)
	g.arrives(0, greeting(99)) // that somebody made up
	g.arrives(0, old[:20])
	if g.haunt(0) {
		t.Fatal("the living haunt")
	}
	g.born(1, 20)
	g.arrives(0, greeting(20))
	if g.haunt(0) {
		t.Fatal("the present life haunts")
	}
	g.arrives(0, old)
	if !g.haunt(0) || g.haunt(1) || g.haunt(2) {
		t.Fatal("the ended life does not haunt card 0, and it alone")
	}
	if now += int64(haunting) + 1; g.haunt(0) {
		t.Fatal("it haunts for ever")
	}
}
