package hostile

// This file is moves between cards (attach.Client.Move): a member of a job that begins moves and
// leaves them, hands scribbled images on, arrives in another's place, or at a card where its job is
// not. It loses its own context at most; the process in whose name it lies, and two other users,
// notice nothing (uspace/engine/move.go, ctl/daemon/move.go).

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/rma"
)

const moveGID = 16 // of the members

// mover is a context whose process moves as it likes.
type mover struct {
	*client.Connection
	t    *testing.T
	b    *bed
	host int
	node uint16
}

// place asks a daemon for a context, one that arrives or does not.
func (b *bed) place(t *testing.T, g *group, host int, node uint16, arrives bool) (*mover, error) {
	t.Helper()
	k, err := client.Dial(b.sockets[host])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	m := &mover{Connection: k, t: t, b: b, host: host, node: node}
	r := attach.AttachRequest{GID: g.gid, Node: node, Slots: 64, Remote: windowSizes, Token: g.token}
	var answer []byte
	var fds []int
	if !arrives {
		if err = m.Attach(r); err == nil {
			err = m.Start()
		}
	} else if answer, fds, err = m.Ask(r.EncodeArrive(), attach.AttachDescriptors); err == nil {
		m.FDs = append(m.FDs, fds...)
		_, err = attach.DecodeArriveAnswer(answer)
	}
	if err != nil {
		k.Close()
	}
	return m, err
}

// leaves has the card let the context go, and returns its image.
func (m *mover) leaves(card uint16) (image []byte, a attach.LeaveAnswer, err error) {
	m.t.Helper()
	answer, _, err := m.Ask(attach.LeaveRequest{Card: card, Patience: patience}.Encode(), 0)
	if err == nil {
		a, err = attach.DecodeLeaveAnswer(answer)
	}
	for err == nil && uint64(len(image)) < a.Image {
		if answer, _, err = attach.Receive(m.Conn, m.Buffer, 0); err == nil {
			var part []byte
			part, err = attach.DecodeBody(answer, attach.KindLeave|attach.AnswerBit)
			image = append(image, part...)
		}
	}
	return image, a, err
}

// hands hands an image on, and returns what the daemon says to it.
func (m *mover) hands(image []byte) error {
	m.t.Helper()
	for at := 0; at < len(image); at += attach.MaxImagePart {
		part := image[at:min(at+attach.MaxImagePart, len(image))]
		answer, _, err := m.Ask(attach.ImageRequest{Total: uint64(len(image)), Offset: uint64(at),
			Part: part}.Encode(), 0)
		if err == nil {
			_, err = attach.DecodeBody(answer, attach.KindImage|attach.AnswerBit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestMoves: see above, row by row.
func TestMoves(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), longSilence), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", moveGID, 0, 0, 0, 1, 0)
	owner, honest := b.newWindowMember(t, g, "the owner", 0), b.newWindowMember(t, g, "the honest one", 1)
	w, forHonest := owner.exposes(0x1000, 64, rma.Options{})
	const thief = 2 // its node
	r := mathrand.New(mathrand.NewPCG(16, seed(t)))
	thiefs := func(host int, arrives bool) *mover {
		t.Helper()
		var m *mover
		until(t, "the thief has a place", func() bool { // who was there before has gone
			var err error
			if m, err = b.place(t, g, host, thief, arrives); err != nil && !errors.Is(err, attach.ErrTaken) {
				t.Fatalf("the thief at host %d: %v", host, err)
			}
			return err == nil
		}, func() string { return "" })
		return m
	}
	refused := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		honest.adds(forHonest, 20)
	}
	// gone waits until what is sent to the thief's node comes back: nobody waits for what has no
	// process. One that had not left may be there until the daemon has seen its end.
	gone := func(what string, left bool) {
		t.Helper()
		until(t, what+": the thief's node is nobody", func() bool {
			why := honest.reason(honest.Read(rma.Target{Node: thief, Key: 1 << 16}))
			if left && why == arctic.ReasonKeySlot {
				t.Fatalf("%s: the thief's node is there", what)
			}
			return why == arctic.ReasonNoContext
		}, func() string { return "" })
		honest.adds(forHonest, 20)
	}
	there := func(what string) { // the thief's node has a process, or what is left of it
		t.Helper()
		if why := honest.reason(honest.Read(rma.Target{Node: thief, Key: 1 << 16})); why != arctic.ReasonKeySlot {
			t.Fatalf("%s: the thief's node: %v", what, why)
		}
		honest.adds(forHonest, 20)
	}

	// What is no move.
	k := thiefs(0, false)
	there("attached")
	_, _, err := k.leaves(0)
	refused("to its own card", err, attach.ErrRoute)
	_, _, err = k.leaves(77)
	refused("to a card that is none", err, attach.ErrRoute)
	refused("an image for a context that does not arrive", k.hands([]byte("image")), attach.ErrMalformed)
	k.Close()
	k = thiefs(0, false)
	nobody, err := client.Dial(b.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	none := &mover{Connection: nobody, t: t, b: b}
	_, _, err = none.leaves(1)
	refused("of no context", err, attach.ErrNotAttached)
	refused("an image for no context", none.hands([]byte("image")), attach.ErrNotAttached)
	nobody.Close()
	_, err = b.place(t, g, 0, thief, true)
	refused("arriving where it is", err, attach.ErrTaken)
	_, err = b.place(t, g, 0, 0, true)
	refused("arriving where the owner is", err, attach.ErrTaken)

	// Cards of other jobs.
	alone := &group{gid: 17, token: attach.NewToken(), cards: []uint16{0, 0}, name: "alone"}
	b.found(alone, 0) // and not on host 1
	a := b.newWindowMember(t, alone, "who is alone", 0)
	_, forAlone := a.exposes(0, 64, rma.Options{})
	_, err = a.client.Move(context.Background(), b.sockets[1])
	refused("to a card where the job is not", err, attach.ErrGroup)
	a.adds(forAlone, 20) // it goes on
	wrong := *g
	wrong.token = alone.token
	_, err = b.place(t, &wrong, 1, 0, true)
	refused("arriving with another job's token", err, attach.ErrToken)
	outside := *g
	outside.gid = 17
	_, err = b.place(t, &outside, 1, 0, true)
	refused("arriving in a job that is not there", err, attach.ErrGroup)
	_, err = b.place(t, g, 1, 9, true)
	refused("arriving as a node that is none", err, attach.ErrNode)
	if err := a.client.Close(0); err != nil {
		t.Errorf("who is alone: %v", err)
	}
	alone.end()
	goOn("beside moves to other jobs")

	// Moves that are begun and left.
	in := thiefs(1, true)
	there("arriving elsewhere, and not leaving")
	in.Close()
	there("having arrived elsewhere, and left that")
	in = thiefs(1, true)
	if _, _, err = k.leaves(1); err != nil {
		t.Fatal(err)
	}
	in.Close()
	k.Close()
	gone("leaving, and never handing the image on", true)
	k = thiefs(1, false)
	there("again, where it would have been")
	for range 3 { // whatever the daemon has done by then
		if err := attach.Send(k.Conn, attach.LeaveRequest{Card: 0, Patience: patience}.Encode()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(1+r.IntN(20)) * time.Millisecond)
		k.Close()
		gone("leaving for where it is not awaited", false)
		k = thiefs(1, false)
		there("again, where it was")
	}
	in = thiefs(0, true)
	if _, _, err = k.leaves(0); err != nil {
		t.Fatal(err)
	}
	k.Close() // the old end first; who arrives does so for ever
	honest.adds(forHonest, 100)
	in.Close()
	gone("leaving, and only arriving", true)
	goOn("beside moves that are begun and left")

	// Images that are scribbled.
	at, kept := 0, []byte(nil)
	for name, change := range map[string]func(image []byte) []byte{
		"nothing":         func(image []byte) []byte { return image[:1] },
		"half":            func(image []byte) []byte { return image[:len(image)/2] },
		"a byte more":     func(image []byte) []byte { return append(image, 0) },
		"another magic":   func(image []byte) []byte { image[0]++; return image },
		"another group's": func(image []byte) []byte { image[6]++; return image },
		"another node's":  func(image []byte) []byte { image[8]--; return image },
		"segments":        func(image []byte) []byte { image[10] = 3; return image },
		"more windows": func(image []byte) []byte {
			binary.LittleEndian.PutUint32(image[20:], 1<<16)
			return image
		},
		"a window of all":      func(image []byte) []byte { image[32] = 1; return image },
		"random bytes":         func(image []byte) []byte { scribbleOver(r, image); return image },
		"random bytes at last": func(image []byte) []byte { scribbleOver(r, image[len(image)/2:]); return image },
	} {
		k := thiefs(at, false)
		at = 1 - at
		in := thiefs(at, true)
		image, _, err := k.leaves(uint16(at))
		if err != nil {
			t.Fatal(err)
		}
		kept = bytes.Clone(image)
		err = in.hands(change(image))
		if name == "random bytes at last" && err == nil {
			there(name) // counts of what it has moved may say anything
		} else {
			refused("an image of "+name, err, attach.ErrMalformed)
		}
		in.Close()
		k.Close()
		gone(name, err != nil)
	}
	goOn("beside images that are scribbled")

	// In another's place: the owner's stays where it is, and goes where it wants.
	in, err = b.place(t, g, 1, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = owner.client.Move(ctx, b.sockets[1])
	refused("moving where somebody arrives in one's place", err, attach.ErrTaken)
	binary.LittleEndian.PutUint16(kept[8:], 0) // as if it were the owner's
	said := make(chan error, 1)
	go func() { said <- in.hands(kept) }()
	until(t, "the image for the owner's place is refused", func() bool {
		honest.adds(forHonest, 20)
		select {
		case err = <-said:
			return true
		default:
			return false
		}
	}, func() string { return "" })
	refused("an image for the owner's place", err, attach.ErrMalformed)
	in.Close()
	for i := range 80 { // more than a user may have contexts
		each, cancel := context.WithTimeout(context.Background(), patience)
		_, err := owner.client.Move(each, b.sockets[1-i%2])
		if cancel(); err != nil {
			t.Fatalf("move %d of the owner: %v", i, err)
		}
		honest.adds(forHonest, 5)
	}
	owner.adds(w.Target(0), 20)
	goOn("beside the owner, who moves")
	for _, m := range []*windowMember{owner, honest} {
		_ = m.client.Close(0)
	}
	end()
	g.end()
	b.empty()
	b.alive()
}

// scribbleOver makes bytes random.
func scribbleOver(r *mathrand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}
