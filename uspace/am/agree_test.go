package am_test

// This file tests what members say of lives and when they agree (package am, Rejoin), word by word:
// the test is the card of node 0, and speaks for nodes 1 and 2.

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Types of messages, and what those of the membership's own are for (types.go, member.go).
const (
	typeMember   = 27
	memberHello  = 0
	memberBack   = 1
	memberGone   = 4
	memberFence  = 7
	memberReady  = 8
	memberGo     = 9
	readyShift   = 15
	senderShift  = 27
	typeFourWord = 0
)

// council is node 0, a member in its first life.
type council struct {
	t      *testing.T
	e      *am.Endpoint
	card   *funi.Card
	events []string
	script []func() // what happens each time that the card is let run
}

func newCouncil(t *testing.T) *council {
	t.Helper()
	memory, err := funi.NewMemory(benchSlots)
	if err != nil {
		t.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		t.Fatal(err)
	}
	c := &council{t: t}
	if c.card, err = funi.Attach(memory); err != nil {
		t.Fatal(err)
	}
	if c.e, err = am.New(iface, 0, 3, c.drive, 1); err != nil {
		t.Fatal(err)
	}
	err = c.e.Rejoin(am.RejoinOptions{Now: func() int64 { return 0 }, Event: func(v am.Event) {
		c.events = append(c.events, v.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *council) drive() {
	if len(c.script) > 0 {
		next := c.script[0]
		c.script = c.script[1:]
		next()
	}
}

// says delivers a message of the membership's own, of a life of a node.
func (c *council) says(l funi.Level, node, life uint16, what uint32, words ...uint32) {
	c.message(l, node, typeMember, append([]uint32{what | uint32(life)<<senderShift, uint32(life)},
		append(words, 0, 0, 0)[:3]...))
}

func (c *council) message(l funi.Level, node, typ uint16, words []uint32) {
	s := c.card.Vacant(l)
	clear(s[:])
	s.SetHeader(funi.NewHeader(0, typ, len(words)))
	copy(s[funi.PayloadWord:funi.SourceWord], words)
	s[funi.SourceWord] = uint32(node)
	c.card.Deliver(l)
	c.card.Publish()
}

func (c *council) poll() error {
	_, err := c.e.Poll()
	return err
}

func (c *council) must() {
	c.t.Helper()
	if err := c.poll(); err != nil {
		c.t.Fatal(err)
	}
}

// said returns what node 0 has said, of messages of the membership's own: to whom, and what for,
// with the word behind the life.
func (c *council) said() (all [][3]uint32) {
	for _, s := range sentOf(c.card, typeMember) {
		all = append(all, [3]uint32{uint32(s.Header().Node()), s[1] & 0xff, s[3]})
	}
	return all
}

// replace has node 1 die and join again in its life 1.
func (c *council) replace() {
	c.t.Helper()
	c.says(funi.Request, 2, 0, memberGone, 1, 0)
	c.must()
	c.says(funi.Request, 1, 1, memberHello)
	c.must()
	if want := []string{"node 1 (life 0) has left", "node 1 (life 1) has joined"}; !slices.Equal(c.events, want) {
		c.t.Fatalf("events %q, want %q", c.events, want)
	}
	c.said()
}

// Rule (member.go): a node that the others hold to be dead, and that says something all the same,
// is told so, with the life that it has: its message runs nothing. A node that is told so of its
// own life ends with ErrExpelled; of another it goes on.
func TestExpelled(t *testing.T) {
	c := newCouncil(t)
	ran := 0
	if err := c.e.Handle(3, func(*am.Message) { ran++ }); err != nil {
		t.Fatal(err)
	}
	c.message(funi.Request, 1, typeFourWord, []uint32{3, 0, 0, 0, 0})
	c.must()
	c.says(funi.Request, 2, 0, memberGone, 1, 0)
	c.must()
	c.said()
	c.message(funi.Request, 1, typeFourWord, []uint32{3, 0, 0, 0, 0})
	c.must()
	if got, want := c.said(), [][3]uint32{{1, memberFence, 0}}; !slices.Equal(got, want) || ran != 1 {
		t.Errorf("said %v, want %v; the handler ran %d times", got, want, ran)
	}
	c.says(funi.Reply, 2, 0, memberFence, 1) // a life of somebody else's
	c.must()
	c.says(funi.Reply, 2, 0, memberFence, 0)
	if err := c.poll(); !errors.Is(err, am.ErrExpelled) {
		t.Errorf("given up by the others: %v", err)
	}
}

// Rule: hello is answered each time, as the answer may be lost, and a life joins once. A hello of a
// life that is over is not answered and changes nothing.
func TestHelloRepeated(t *testing.T) {
	c := newCouncil(t)
	c.replace()
	for range 3 {
		c.says(funi.Request, 1, 1, memberHello)
		c.must()
	}
	if got, want := c.said(), [][3]uint32{{1, memberBack, 0}, {1, memberBack, 0},
		{1, memberBack, 0}}; !slices.Equal(got, want) {
		t.Errorf("three hellos were answered with %v", got)
	}
	c.says(funi.Request, 1, 0, memberHello)
	c.must()
	if got := c.said(); len(got) != 0 || len(c.events) != 2 || c.e.Life(1) != 1 {
		t.Errorf("a hello of a life that is over: said %v, events %q", got, c.events)
	}
}

// Rule (agree.go): node 0 ends Agree when all have told it its own view, and calls go on beyond the
// numbers of all calls before, by two: of one that some have ended and of one that others have
// begun. Each other node is told the number and the view.
func TestAgreeJumps(t *testing.T) {
	c := newCouncil(t)
	c.replace()
	view := am.View(c.e)
	low, high := uint32(view), uint32(view>>32)
	c.script = []func(){
		func() { c.says(funi.Request, 1, 1, memberReady, 3, low, high) },
		func() { c.says(funi.Request, 2, 0, memberReady, 7, low, high) },
	}
	if err := c.e.Agree(); err != nil {
		t.Fatal(err)
	}
	if got := c.e.Agreed(); got != 9 {
		t.Errorf("calls go on at %d, want 9", got)
	}
	if got, want := c.said(), [][3]uint32{{1, memberGo, 9}, {2, memberGo, 9}}; !slices.Equal(got, want) {
		t.Errorf("said %v, want %v", got, want)
	}
}

// Rule: Agree does not end while a node has another view, or has told its view in an earlier life;
// the last word of a node counts, in whatever order its words arrive.
func TestAgreeFences(t *testing.T) {
	for name, words := range map[string]func(c *council, low, high uint32) []func(){
		"another view": func(c *council, low, high uint32) []func() {
			return []func(){func() { c.says(funi.Request, 1, 1, memberReady, 3, low+1, high) }}
		},
		"a later word takes it back": func(c *council, low, high uint32) []func() {
			return []func(){
				func() { c.says(funi.Request, 1, 1, memberReady|0<<readyShift, 3, low, high) },
				func() { c.says(funi.Request, 1, 1, memberReady|1<<readyShift, 3, low, high+1) },
			}
		},
		"of a life that is over": func(c *council, low, high uint32) []func() {
			return []func(){func() { c.says(funi.Request, 1, 0, memberReady, 3, low, high) }}
		},
		"nothing": func(*council, uint32, uint32) []func() { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCouncil(t)
			c.replace()
			view := am.View(c.e)
			low, high := uint32(view), uint32(view>>32)
			ctx, cancel := context.WithCancel(context.Background())
			c.e.Bind(ctx)
			c.script = append(words(c, low, high), func() { c.says(funi.Request, 2, 0, memberReady, 7, low, high) })
			for range 20 {
				c.script = append(c.script, func() {})
			}
			c.script = append(c.script, cancel)
			if err := c.e.Agree(); !errors.Is(err, am.ErrCancelled) {
				t.Errorf("Agree ended with %v", err)
			}
			// Called again it goes on: the right word of the node is all that is missing.
			c.e.Bind(context.Background())
			c.script = []func(){func() {
				c.says(funi.Request, 1, 1, memberReady|3<<readyShift, 3, low, high)
				c.says(funi.Request, 1, 1, memberReady|2<<readyShift, 3, low, high+1) // overtaken
			}}
			if err := c.e.Agree(); err != nil || c.e.Agreed() != 9 {
				t.Errorf("Agree: %v, calls go on at %d", err, c.e.Agreed())
			}
		})
	}
}
