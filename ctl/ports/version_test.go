package ports

// This file tests that a helper and a funid of two releases that follow each other understand each
// other. What the one before said is frozen here: its messages as bytes, and what it read of the
// others' (version 1, of commit 4fb1a858). Whoever makes a new version replaces all of it.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// The requests of the funid before, with places for a tag and an ID.
const (
	oldHeld     = `{"op":"held","job":{"Tag":0,"GID":0},"node":0,"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0}}`
	oldAddJob   = `{"op":"add_job","job":{"Tag":77,"GID":9},"nodes":2,"node":0,"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0}}`
	oldPlace    = `{"op":"place","job":{"Tag":77,"GID":9},"node":0,"at":[-1,0],"places":[{"Port":0,"Link":0,"NIC":3,"MAC":[2,0,0,0,0,1],"Own":[2,0,0,0,0,2],"Longest":1514}],"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0}}`
	oldMake     = `{"op":"make","job":{"Tag":77,"GID":9},"node":0,"geometry":%s,"mtu":1500,"ticket":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`
	oldCounters = `{"op":"counters","job":{"Tag":0,"GID":0},"node":0,"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0},"id":%d}`
	oldEnd      = `{"op":"end","job":{"Tag":0,"GID":0},"node":0,"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0},"id":%d}`
	oldRemove   = `{"op":"remove_job","job":{"Tag":77,"GID":9},"node":0,"geometry":{"FrameSize":0,"Frames":0,"RxSize":0,"TxSize":0,"FillSize":0,"CompletionSize":0}}`
)

// oldAnswer is what the funid before read of an answer, and what the helper before said.
type oldAnswer struct {
	Error    string `json:"error,omitempty"`
	Full     bool   `json:"full,omitempty"`
	ID       uint32 `json:"id,omitempty"`
	Gone     bool   `json:"gone,omitempty"`
	Counters struct {
		Short      uint64 `json:"short"`
		BadVersion uint64 `json:"bad_version"`
		Forged     uint64 `json:"forged"`
		BadLength  uint64 `json:"bad_length"`
		NoNode     uint64 `json:"no_node"`
		TooLong    uint64 `json:"too_long"`
		Sent       uint64 `json:"sent"`
		Local      uint64 `json:"local"`
	} `json:"counters"`
	Jobs []struct {
		Job   struct{ Tag, GID uint64 } `json:"job"`
		Nodes int                       `json:"nodes"`
	} `json:"jobs,omitempty"`
	Ports []struct {
		ID uint32 `json:"id"`
		Of struct {
			Job  struct{ Tag, GID uint64 }
			Node uint16
		} `json:"of"`
		Ticket [16]byte `json:"ticket"`
		Bytes  int64    `json:"bytes"`
	} `json:"ports,omitempty"`
	More    bool  `json:"more,omitempty"`
	Version int   `json:"version,omitempty"`
	SpentNs int64 `json:"spent_ns"`
}

// Rule: the funid of the release before makes and ends ports by this helper, and finds after a
// restart what it had.
func TestFunidOfReleaseBefore(t *testing.T) {
	b := newBed(t, 2, 1, xdp.AttachNative)
	conn := b.hosts[0].conn.Load() // the client of today is only a connection here
	buffer := make([]byte, attach.MaxMessage)
	ask := func(request string, descriptors int, out ...int) (a oldAnswer, got []int) {
		t.Helper()
		err := errors.Join(conn.SetDeadline(time.Now().Add(patience)), attach.Send(conn, []byte(request), out...))
		var text []byte
		if err == nil {
			text, got, err = attach.Receive(conn, buffer, descriptors)
		}
		if err == nil {
			err = json.Unmarshal(text, &a)
		}
		if err != nil || a.Error != "" || len(got) != descriptors {
			t.Fatalf("%s: %s, %d descriptors, %v", request, text, len(got), err)
		}
		return a, got
	}
	held := func() oldAnswer {
		t.Helper()
		a, _ := ask(oldHeld, 0)
		if a.Version != 1 {
			t.Fatalf("the funid before refuses version %d", a.Version)
		}
		return a
	}
	held()
	ask(oldAddJob, 0)
	ask(oldPlace, 0)
	geometry, err := json.Marshal(afxdp.GeometryFor(mtu))
	if err != nil {
		t.Fatal(err)
	}
	mem := memory(t)
	made, got := ask(fmt.Sprintf(oldMake, geometry), 1, int(mem.Fd()))
	p, err := afxdp.OpenDirect(afxdp.Direct{FD: got[0], Memory: mem, Geometry: afxdp.GeometryFor(mtu), MTU: mtu})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if room := p.Reserve(); room != nil { // to a node that is behind the NIC
		p.Commit(copy(room, testFrame(bpf.Job{Tag: 77, GID: 9}, 0, 1, 100)))
	}
	for until := time.Now().Add(patience); ; {
		p.Flush()
		if a, _ := ask(fmt.Sprintf(oldCounters, made.ID), 0); a.Counters.Sent == 1 {
			break
		} else if time.Now().After(until) {
			t.Fatalf("the guard counts %+v", a.Counters)
		}
	}
	a := held()
	if len(a.Jobs) != 2 || len(a.Ports) != 1 || a.Ports[0].ID != made.ID || a.Ports[0].Of.Job.Tag != 77 ||
		a.Ports[0].Ticket != [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} {
		t.Errorf("it finds %+v", a)
	}
	ask(fmt.Sprintf(oldEnd, made.ID), 0)
	ask(oldRemove, 0)
}

// Rule: this funid makes and ends ports by the helper of the release before, and asks it for
// nothing that it does not know; with those that are older or much newer it does not go on.
func TestHelperOfReleaseBefore(t *testing.T) {
	mine, its := pair(t)
	defer its.Close()
	c := NewClient(mine)
	defer c.Close()
	socket, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	// serve answers requests until the connection ends, as the helper before did, but for what it
	// did.
	serve := func(its *net.UnixConn, version int) error {
		buffer := make([]byte, attach.MaxMessage)
		for {
			text, got, err := attach.Receive(its, buffer, 1)
			if err != nil {
				return nil
			}
			var r struct {
				Op     string
				Job    struct{ Tag, GID uint64 }
				ID     uint32
				Places []struct {
					NIC      uint32
					MAC, Own [6]byte
				}
			}
			if err := json.Unmarshal(text, &r); err != nil {
				return err
			}
			var a oldAnswer
			var out []int
			switch r.Op {
			case opHeld:
				a.Version = version
			case opMake:
				if a.ID = 5; len(got) != 1 || r.Job.Tag != 77 {
					a.Error = "no memory, or another job: " + string(text)
				}
				out = []int{int(socket.Fd())}
			case opCounters:
				a.Counters.Forged = uint64(r.ID)
			case opPlace:
				if len(r.Places) != 1 || r.Places[0].NIC != 3 || r.Places[0].MAC != [6]byte{2, 0, 0, 0, 0, 1} ||
					r.Places[0].Own != [6]byte{2, 0, 0, 0, 0, 2} {
					a.Error = "other places: " + string(text)
				}
			case opAddJob, opEnd:
			case opGone:
				a.Gone = true
			default:
				a.Error = "the helper does not know the request " + r.Op
			}
			attach.CloseDescriptors(got)
			answer, err := json.Marshal(a)
			if err == nil {
				err = attach.Send(its, answer, out...)
			}
			if err != nil {
				return err
			}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(its, 1) }()
	if _, _, err := c.Held(); err != nil {
		t.Fatal(err)
	}
	of := bpf.Job{Tag: 77, GID: 9}
	_, err = c.AddJob(of, 2)
	made, making := c.Make(bpf.Port{Job: of}, attach.Ticket{}, int(socket.Fd()), afxdp.GeometryFor(mtu), mtu, xdp.AttachNative)
	to, own := [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	_, placing := c.Place(of, []int{-1, 0}, []bpf.Place{{NIC: 3, Longest: 1514, Way: bpf.EthernetWay(to, own, 0)}})
	making = errors.Join(making, placing)
	if _, err := c.Place(of, []int{0},
		[]bpf.Place{{NIC: 3, Longest: 1514, Way: bpf.EthernetWay(to, own, 7)}}); !errors.Is(err, ErrVersion) {
		t.Errorf("a way with a tag: %v", err)
	}
	if _, err := c.Make(bpf.Port{Job: of}, attach.Ticket{}, int(socket.Fd()), afxdp.GeometryFor(mtu), mtu,
		xdp.AttachGeneric); !errors.Is(err, ErrVersion) {
		t.Errorf("generic mode: %v", err)
	}
	if err = errors.Join(err, making); err != nil || made.ID != 5 {
		t.Fatalf("%+v, %v", made, err)
	}
	unix.Close(made.FD)
	n, err := c.Counters(made.ID)
	_, ending := c.End(made.ID)
	gone, _, asking := c.Gone(made.ID)
	if err = errors.Join(err, ending, asking); err != nil || n.Forged != 5 || !gone {
		t.Errorf("%+v, gone %v, %v", n, gone, err)
	}
	if _, err := c.Switch(); !errors.Is(err, ErrVersion) {
		t.Errorf("maps of another layout: %v", err)
	}
	if _, ok, err := c.Totals(); ok || err != nil {
		t.Errorf("totals, which it does not have: %v, %v", ok, err)
	}
	if _, ok, err := c.StartCapture(100); ok || err != nil {
		t.Errorf("captures, which it does not have: %v, %v", ok, err)
	}
	mine.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, version := range []int{0, Version + 1} {
		mine, its := pair(t)
		go func() { ended <- serve(its, version) }()
		if _, _, err := NewClient(mine).Held(); !errors.Is(err, ErrVersion) ||
			!strings.Contains(err.Error(), fmt.Sprint(version)) {
			t.Errorf("version %d: %v", version, err)
		}
		mine.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		its.Close()
	}
}

// Rule (Totals): what ports sent counts also when they have ended, and those that processes keep
// are told.
func TestTotals(t *testing.T) {
	b := newBed(t, 2, 2, xdp.AttachNative)
	h := b.hosts[0]
	trial, err := h.newTrial(portOf(0), mtu, xdp.AttachNative)
	if err != nil {
		t.Fatal(err)
	}
	forged := testFrame(job, 1, 0, 100)
	until := time.Now().Add(patience)
	total := func(what string, good func(t *Totals) bool) {
		t.Helper()
		for {
			n, ok, err := h.Totals()
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if good(&n) {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%s: %+v", what, n)
			}
		}
	}
	if err := trial.send(forged); err != nil {
		t.Fatal(err)
	}
	total("while it is there", func(n *Totals) bool {
		return n.Ports == 1 && n.Kept == 0 && n.Frames.Forged == 1 && n.Frames.Dropped() == 1
	})
	if _, err := h.End(trial.id); err != nil {
		t.Fatal(err)
	}
	total("when it has ended", func(n *Totals) bool { return n.Ports == 0 && n.Kept == 1 && n.Frames.Forged == 1 })
	if err := trial.port.Close(); err != nil {
		t.Fatal(err)
	}
	for gone := false; !gone; {
		if gone, _, err = h.Gone(trial.id); err != nil || time.Now().After(until) {
			t.Fatal(gone, err)
		}
	}
	total("when it is gone", func(n *Totals) bool { return n.Ports == 0 && n.Kept == 0 && n.Frames.Forged == 1 })
}
