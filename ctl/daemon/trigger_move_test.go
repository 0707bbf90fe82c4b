package daemon_test

// This file tests processes that issue by triggers and move to another card.

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a process that issues by triggers moves between daemons, whatever it has committed,
// issued or triggered meanwhile, and goes on there: the new card takes up the turn of the last
// trigger and the slots that the old one has accepted (funi.Card, haltTrigger and latchTrigger).
// All messages arrive, each once. A trigger is answered on one of the two cards.
func TestTriggersMove(t *testing.T) {
	const messages = 3000
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	gid, token, _ := two(t, daemons, 0, 1)
	c, err := attach.Open(attach.Config{Socket: daemons[0].socket, GID: gid, Node: 0, Slots: 32, Token: token,
		Triggers: true, Remote: funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(0)
	r := open(t, daemons[1], gid, 1, token, false)
	defer r.Close(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var times [messages]int
	var receives sync.WaitGroup
	receives.Go(func() {
		for n := 0; n < messages; {
			i := r.Interface()
			for s := i.Receive(funi.Request); s != nil; s = i.Receive(funi.Request) {
				times[s.Payload()[0]]++
				i.Release(funi.Request)
				n++
			}
			if n < messages && r.Wait(ctx) != nil {
				return
			}
		}
	})
	rnd, i := rand.New(rand.NewPCG(1, 2)), c.Interface()
	answer := func() funi.TriggerStatus { // waits for that of the last trigger
		for {
			if _, s, ok := i.TriggerAnswer(); ok {
				return s
			}
			if err := c.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	moves, disabled, there, asked := 0, 0, 0, uint32(0)
	pointers := func() { // the card that the process is on knows what the one before has done
		i.Trigger(funi.TriggerPointers, 0)
		var n funi.Notification
		if s := answer(); s != funi.TriggerDone || !i.NextNotification(&n) || n.Kind != funi.NotePointers ||
			n.Pointers.Notified != asked || n.Pointers.NotesRead != asked {
			t.Fatalf("after %d moves and %d questions the pointers are %+v, %v", moves, asked, n, s)
		}
		asked++
		if !i.Issue() || answer() != funi.TriggerDone { // gives the notification back
			t.Fatalf("after %d moves a notification is not taken back", moves)
		}
	}
	for sent := uint32(0); sent < messages || i.Unissued() > 0 || i.Unsent(funi.Request) > 0; {
		for range rnd.IntN(20) {
			s := i.Reserve(funi.Request)
			if s == nil || sent == messages {
				break
			}
			s.SetHeader(funi.NewHeader(1, 5, 1))
			s[funi.PayloadWord] = sent
			i.Commit(funi.Request)
			sent++
		}
		switch _, _, answered := i.TriggerAnswer(); {
		case !answered:
		case i.Unissued() > 0:
			i.Trigger(funi.TriggerIssue, uint32(1+rnd.IntN(min(i.Unissued(), funi.MaxIssue))))
		}
		if rnd.IntN(10) == 0 && moves < 40 {
			if _, err := c.Move(ctx, daemons[1-there].socket); err != nil {
				t.Fatalf("move %d: %v", moves, err)
			}
			there = 1 - there
			moves++
		}
		if s := answer(); s == funi.TriggerDisabled {
			disabled++ // nothing was done; what is not issued is triggered again
		} else if s.Err() != nil {
			t.Fatalf("after %d moves: %v", moves, s)
		}
		pointers()
		if back, ok := i.NextReturn(); ok {
			t.Fatalf("after %d moves a message came back: %+v", moves, back)
		}
	}
	receives.Wait()
	for word, n := range times {
		if n != 1 {
			t.Fatalf("message %d arrived %d times, after %d moves", word, n, moves)
		}
	}
	t.Logf("%d moves; %d triggers were answered: %v", moves, disabled, funi.TriggerDisabled)
	if moves < 20 {
		t.Errorf("there were %d moves", moves)
	}
}

// Rule: a process that issues by triggers and cannot move, while its receiver takes nothing, goes
// on where it is: what it had issued before, and what it issues afterwards, arrives once, and a
// trigger that the card refused meanwhile has done nothing.
func TestTriggersStay(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, nil), b.start(1, nil)}
	gid, token, _ := two(t, daemons, 0, 1)
	c, err := attach.Open(attach.Config{Socket: daemons[0].socket, GID: gid, Node: 0, Slots: 16, Token: token,
		Triggers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(0)
	r, err := attach.Open(attach.Config{Socket: daemons[1].socket, GID: gid, Node: 1, Slots: 16, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, sent, times := c.Interface(), uint32(0), map[uint32]int{}
	fill := func() {
		for s := i.Reserve(funi.Request); s != nil; s = i.Reserve(funi.Request) {
			s.SetHeader(funi.NewHeader(1, 5, 1))
			s[funi.PayloadWord] = sent
			i.Commit(funi.Request)
			sent++
		}
		i.Issue()
	}
	take := func() (n int) {
		for s := r.Interface().Receive(funi.Request); s != nil; s = r.Interface().Receive(funi.Request) {
			if times[s.Payload()[0]]++; times[s.Payload()[0]] > 1 {
				t.Fatalf("message %d arrives twice", s.Payload()[0])
			}
			r.Interface().Release(funi.Request)
			n++
		}
		r.Drive()
		c.Drive()
		if ctx.Err() != nil {
			t.Fatalf("%d messages of %d arrive; unissued %d, unsent %d", len(times), sent, i.Unissued(),
				i.Unsent(funi.Request))
		}
		return n
	}
	for stays, there := 0, 0; stays < 5; {
		for was := ^uint32(0); was != sent; { // until the receiver has no room
			was = sent
			for range 1000 {
				fill()
				c.Drive()
			}
		}
		short, end := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := c.Move(short, daemons[1-there].socket)
		end()
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
		if err != nil {
			stays++
		} else {
			there = 1 - there // the receiver had room for all
		}
		for got := 0; got < 500; got += take() {
			fill()
		}
	}
	for len(times) < int(sent) {
		i.Issue()
		take()
	}
}
