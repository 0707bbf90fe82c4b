package funi_test

// This file holds the rules of start-up by the book, of queues that change their size,
// of the virtual send queue and of doorbells.

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// obey does what a card does about CNTL, as far as the process's end needs it: it halts,
// says so, and latches. It keeps what it has set in seen and what it runs in on.
type obey struct {
	card *funi.Card
	on   uint32 // CSQM and CRQM of the directions that run
	err  error
}

func (o *obey) look() {
	v := o.card.Load(funi.Control)
	want := v & funi.UserModes
	if want&funi.CSQM != 0 && o.on&funi.CSQM != 0 {
		o.card.HaltSend()
	} else if want&funi.CSQM == 0 && o.on&funi.CSQM == 0 {
		o.err = errors.Join(o.err, o.card.LatchSend())
	}
	if want&funi.CRQM != 0 && o.on&funi.CRQM != 0 {
		o.card.HaltReceive()
	} else if want&funi.CRQM == 0 && o.on&funi.CRQM == 0 {
		o.err = errors.Join(o.err, o.card.LatchReceive())
	}
	o.on = funi.UserModes &^ want
	o.card.PutControl(v, want|want<<1)
}

// echo sends what the process sent back to it, as far as there is room.
func (o *obey) echo() (n int) {
	for l := range funi.Level(2) {
		pending, taken := o.card.Pending(l), 0
		for ; taken < pending; taken++ {
			out := o.card.Vacant(l)
			if out == nil {
				break
			}
			*out = *o.card.Slot(l, taken)
			o.card.Deliver(l)
		}
		o.card.Retire(l, taken)
		n += taken
	}
	o.card.Publish()
	return n
}

// Rule: a context whose card was there first is started by setting CSQM and CRQM,
// waiting, writing the registers and clearing the modes (thesis 3.2.1).
func TestStart(t *testing.T) {
	m := memory(t, 16)
	for r := funi.QMask; r < funi.Registers; r++ {
		m.Page.Store(r, 0xdeadbeef) // not initialised
	}
	o := &obey{card: funi.NewCard(m)}
	m.Page.Store(funi.Control, funi.UserModes)
	waits := 0
	i, err := funi.Start(m, 8, func() error { waits++; o.look(); return nil })
	if err != nil || waits != 1 || i.Slots() != 8 {
		t.Fatalf("%v after %d waits", err, waits)
	}
	o.look()
	if o.err != nil || i.Status() != 0 {
		t.Fatalf("card: %v; CNTL %#x", o.err, i.Status())
	}
	i.Reserve(funi.Reply).SetHeader(funi.NewHeader(1, 2, 3))
	i.Commit(funi.Reply)
	if o.echo() != 1 || i.Receive(funi.Reply).Header() != funi.NewHeader(1, 2, 3) {
		t.Error("the packet did not come back")
	}
	stop := errors.New("stop")
	if _, err := funi.Start(memory(t, 16), 8, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a wait that fails: %v", err)
	}
	for _, slots := range []int{-1, 0, 1, 3, 1 << 17} {
		if _, err := funi.Start(m, slots, nil); !errors.Is(err, funi.ErrSlots) {
			t.Errorf("%d slots: %v, want ErrSlots", slots, err)
		}
	}
	if _, err := funi.Start(m, 32, nil); !errors.Is(err, funi.ErrLayout) {
		t.Errorf("more slots than the memory has: %v, want ErrLayout", err)
	}
}

// Rule: indices that the card takes over are masked, and published as it uses them
// (LatchSend, LatchReceive).
func TestLatchedIndicesAreMasked(t *testing.T) {
	m := memory(t, 8)
	if _, err := funi.Initialize(m); err != nil {
		t.Fatal(err)
	}
	for _, r := range indices {
		m.Page.Store(r, 0xdeadbeef)
	}
	c := funi.NewCard(m)
	if err := errors.Join(c.LatchSend(), c.LatchReceive()); err != nil {
		t.Fatal(err)
	}
	c.Publish()
	for _, r := range []funi.Register{funi.RPSQTail, funi.RQSQTail, funi.RPRQHead, funi.RQRQHead} {
		if v := m.Page.Load(r); v != 0xdeadbeef&7 {
			t.Errorf("register %d is %#x, want %#x", r, v, 0xdeadbeef&7)
		}
	}
}

// Rule: the size changes from 2 to as many slots as fit while packets are on their way. No packet
// is lost, repeated, or overtaken by another of its level (thesis 3.1.1, 3.2.1). A size that the
// packets do not fit is refused and changes nothing.
func TestResize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := funi.NewMemory(64)
		if err != nil {
			t.Fatal(err)
		}
		i, err := funi.InitializeSlots(m, 4)
		if err != nil {
			t.Fatal(err)
		}
		card, err := funi.Attach(m)
		if err != nil {
			t.Fatal(err)
		}
		o := &obey{card: card, on: funi.UserModes}
		var sent, got [2]uint32
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				l := funi.Level(rapid.IntRange(0, 1).Draw(t, "level"))
				for range rapid.IntRange(1, 10).Draw(t, "packets") {
					if s := i.Reserve(l); s != nil {
						s[1] = sent[l]
						sent[l]++
						i.Commit(l)
					}
				}
			},
			"receive": func(t *rapid.T) {
				l := funi.Level(rapid.IntRange(0, 1).Draw(t, "level"))
				for range rapid.IntRange(1, 10).Draw(t, "packets") {
					if s := i.Receive(l); s != nil {
						if s[1] != got[l] {
							t.Fatalf("level %v: got packet %d, want %d", l, s[1], got[l])
						}
						got[l]++
						i.Release(l)
					}
				}
			},
			"card": func(*rapid.T) { o.echo() },
			"look": func(*rapid.T) { o.look() },
			"resize": func(t *rapid.T) {
				slots := 1 << rapid.IntRange(1, 6).Draw(t, "slots")
				was := i.Slots()
				err := i.Resize(slots, func() error { o.look(); o.echo(); return nil })
				if err != nil && !errors.Is(err, funi.ErrTooSmall) {
					t.Fatal(err)
				}
				if err != nil {
					slots = was
				}
				if i.Slots() != slots || m.Page.Load(funi.QMask) != uint32(slots-1) {
					t.Fatalf("%d slots, Q_MASK %#x, want %d (%v)", i.Slots(), m.Page.Load(funi.QMask), slots, err)
				}
			},
			"": func(t *rapid.T) {
				if o.err != nil {
					t.Fatal(o.err)
				}
			},
		})
		o.look()
		for range 200 {
			o.echo()
			for l := range funi.Level(2) {
				for s := i.Receive(l); s != nil; s = i.Receive(l) {
					got[l]++
					i.Release(l)
				}
			}
		}
		if got != sent {
			t.Fatalf("%v sent, %v received", sent, got)
		}
	})
}

// Rule: process and card may run on two cores while the size changes and the virtual
// send queues are switched (doc.go); every packet comes back in order.
func TestResizeOnTwoGoroutines(t *testing.T) {
	const messages = 20000
	m := memory(t, 64)
	i, err := funi.InitializeSlots(m, 4)
	if err != nil {
		t.Fatal(err)
	}
	card, err := funi.Attach(m)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(2 * time.Minute)
	done := make(chan error)
	go func() {
		o := &obey{card: card, on: funi.UserModes}
		for n := 0; n < messages && time.Now().Before(end); {
			o.look()
			k := o.echo()
			if n += k; k == 0 {
				runtime.Gosched()
			}
		}
		done <- o.err
	}()
	v, err := i.NewVirtualQueue(funi.Request)
	if err != nil {
		t.Fatal(err)
	}
	wait := func() error { runtime.Gosched(); return nil }
	for sent, got := uint32(0), uint32(0); got < messages; {
		if sent < messages {
			if s := v.Reserve(); s != nil {
				s[1] = sent
				sent++
				v.Commit()
			}
		}
		v.Advance()
		for s := i.Receive(funi.Request); s != nil; s = i.Receive(funi.Request) {
			if s[1] != got {
				t.Fatalf("got packet %d, want %d", s[1], got)
			}
			got++
			i.Release(funi.Request)
		}
		if sent%97 == 0 && v.Close() == nil {
			if err := i.Resize(4<<(sent%3), wait); err != nil && !errors.Is(err, funi.ErrTooSmall) {
				t.Fatal(err)
			}
			if v, err = i.NewVirtualQueue(funi.Request); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("stuck at %d of %d sent", got, sent)
		}
		runtime.Gosched()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Rule: the virtual send queue takes what the full queue cannot, a queue's worth, and
// becomes the send queue when the real one is empty (thesis 3.2.2); both levels can.
func TestVirtualQueue(t *testing.T) {
	m := memory(t, 64)
	i, err := funi.InitializeSlots(m, 16)
	if err != nil {
		t.Fatal(err)
	}
	card, err := funi.Attach(m)
	if err != nil {
		t.Fatal(err)
	}
	o := &obey{card: card, on: funi.UserModes}
	var v [2]*funi.VirtualQueue
	for l := range funi.Level(2) {
		if v[l], err = i.NewVirtualQueue(l); err != nil {
			t.Fatal(err)
		}
		if _, err := i.NewVirtualQueue(l); !errors.Is(err, funi.ErrVirtual) {
			t.Errorf("a second one: %v, want ErrVirtual", err)
		}
	}
	if err := i.Resize(8, nil); !errors.Is(err, funi.ErrVirtual) {
		t.Errorf("resizing with it open: %v, want ErrVirtual", err)
	}
	var sent, got [2]uint32
	for lap := range 5 {
		for l := range v {
			n := 0
			for s := v[l].Reserve(); s != nil; s = v[l].Reserve() {
				s[1] = sent[l]
				sent[l]++
				v[l].Commit()
				n++
			}
			if n != 30 || v[l].Waiting() != 15 {
				t.Fatalf("lap %d: %d packets fit, %d in the virtual queue; want 30, 15", lap, n, v[l].Waiting())
			}
			if err := v[l].Close(); !errors.Is(err, funi.ErrVirtual) {
				t.Errorf("closing with packets in it: %v, want ErrVirtual", err)
			}
		}
		for got != sent {
			o.look()
			o.echo()
			for l := range v {
				v[l].Advance()
				for s := i.Receive(funi.Level(l)); s != nil; s = i.Receive(funi.Level(l)) {
					if s[1] != got[l] {
						t.Fatalf("lap %d, level %d: got packet %d, want %d", lap, l, s[1], got[l])
					}
					got[l]++
					i.Release(funi.Level(l))
				}
			}
		}
	}
	o.look()
	if i.Status() != 0 || o.err != nil {
		t.Errorf("CNTL %#x, card: %v", i.Status(), o.err)
	}
	small, _, _ := pair(t, 4)
	if _, err := small.NewVirtualQueue(funi.Reply); !errors.Is(err, funi.ErrLayout) {
		t.Errorf("with no room behind the queues: %v, want ErrLayout", err)
	}
}

// Rule: a process rings only while its card says that the context sleeps, with the bell
// that it was told (doorbell.go).
func TestDoorbell(t *testing.T) {
	i, c, m := pair(t, 4)
	m.Doorbells = new(funi.Doorbells)
	send := func() funi.Doorbells {
		i.Reserve(funi.Request).SetHeader(funi.NewHeader(0, 0, 0))
		i.Commit(funi.Request)
		d := *m.Doorbells
		*m.Doorbells = funi.Doorbells{}
		return d
	}
	if d := send(); d != (funi.Doorbells{}) {
		t.Errorf("rang an awake card: %v", d.Bells)
	}
	c.Sleep(1999)
	if d := send(); d != rung(1999) {
		t.Errorf("rang %v", d.Bells)
	}
	c.Wake()
	if d := send(); d != (funi.Doorbells{}) {
		t.Errorf("rang a card that was woken: %v", d.Bells)
	}
}
