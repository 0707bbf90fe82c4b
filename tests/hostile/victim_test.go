package hostile

// This file is the victim: an ordinary process that exchanges requests, answers and blocks
// with its peer all the time and verifies all of them. It says what goes wrong in a line
// that starts with "bad", and every tenth of a second how much has been answered.
//
// In calm every request arrives once and is answered once; nothing comes back. In a storm
// peers and cards are killed: what comes back is tried again, as is what was sent to
// a life of the peer that has ended. A victim whose own daemon is killed attaches again
// when there is one, as a new life, and tries again everything that is not answered. So
// at the end everything must be answered, whatever was killed meanwhile.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
)

// victimConfig configures the role.
type victimConfig struct {
	Socket    string
	GID       uint16
	Node      uint16 // the peer is 1-Node
	Token     string
	Key, Life uint32
	Storm     bool
	// Lure is a node of the same host that gets a message now and then, which nobody answers, once
	// the victim is told to: messages for a node that is not there yet would stay in the queue,
	// before others. 0: none.
	Lure uint16
}

const (
	// inFlight is how many requests are not answered at a time.
	inFlight = 32
	// blockEvery is how many requests pass between two blocks, at least.
	blockEvery = 64
	// reportEvery is how often a victim says how much it has done.
	reportEvery = 100 * time.Millisecond
	// lostAfter: what is neither answered nor returned after that is lost.
	lostAfter = 20 * time.Second
	// lureEvery is how often one is sent.
	lureEvery = 100 * time.Microsecond
	// stormPatience is when a storm tries again what nobody answers: its receiver, or the
	// answer's sender, may have died with it.
	stormPatience = 500 * time.Millisecond
	// again is how long after its return something is tried again.
	again = 2 * time.Millisecond
)

// pending is something that is not answered.
type pending struct {
	number, attempt uint32
	open            bool
	sent            bool
	due             time.Time // to be sent, or if it is sent, to be given up
}

// victim is the role.
type victim struct {
	c       victimConfig
	self    uint16
	peer    uint16
	token   attach.Token
	k       funet.Carrier // of the daemon, or on a direct port
	iface   *funi.Interface
	segment []uint32

	life     uint32 // own
	peerLife uint32
	history  map[uint32]*history // of the peer's requests, by its life
	blocks   map[uint32]*history

	next     uint32 // number of the next request
	requests [inFlight]pending
	block    pending
	since    int // requests since the last block

	now                                  time.Time
	answered, done, allAnswered, allDone int
	returned, late                       int
	command                              atomic.Int32
	luring                               atomic.Bool
	quiet                                bool
	silent                               time.Time // until then what comes back is not told
	lured                                time.Time
}

// Commands.
const (
	waiting = iota // for the peer
	going
	stopping // no new requests
	ending
)

func newVictim(c victimConfig) *victim {
	return &victim{c: c, self: c.Node, peer: 1 - c.Node, life: c.Life, history: map[uint32]*history{},
		blocks: map[uint32]*history{}}
}

// errBad: something went wrong, and a line says what.
var errBad = errors.New("traffic is not as it must be")

// bad says what is wrong.
func (v *victim) bad(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	fmt.Println("bad", text)
	return fmt.Errorf("%s: %w", text, errBad)
}

// live is the role: until it is told to end.
func (v *victim) live() (err error) {
	if v.token, err = attach.ParseToken(v.c.Token); err != nil {
		return err
	}
	go v.obey()
	for {
		if err := v.join(); err != nil {
			return v.bad("attaching: %v", err)
		}
		fmt.Println("attached", capabilities())
		err := v.talk()
		if e := v.k.Close(lostAfter); err == nil {
			err = e
		}
		if !errors.Is(err, funi.ErrDetached) || !v.c.Storm {
			if k, ok := v.k.(*card.Card); ok && v.c.Lure != 0 {
				c, _ := k.Shared()
				text, _ := json.Marshal(c)
				fmt.Println("shared", string(text))
			}
			if err == nil {
				fmt.Println("done", v.allAnswered, v.allDone, v.returned, v.late)
			}
			return err
		}
		fmt.Println("detached")
		v.life++
		v.sendAllAgain()
	}
}

// obey takes commands.
func (v *victim) obey() {
	s := bufio.NewScanner(os.Stdin)
	for s.Scan() {
		switch s.Text() {
		case "go":
			v.command.Store(going)
		case "lure":
			v.luring.Store(true)
		case "stop":
			v.command.Store(stopping)
		case "end":
			v.command.Store(ending)
		}
	}
}

// capabilities returns what /proc says about those of this process.
func capabilities() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "CapPrm:") || strings.HasPrefix(line, "CapEff:") {
			all = append(all, strings.Fields(line)[1])
		}
	}
	return strings.Join(all, " ")
}

// join attaches. In a storm the daemon may have to start first.
func (v *victim) join() error {
	for end := time.Now().Add(patience); ; {
		err := v.attach()
		if err == nil || !v.c.Storm || time.Now().After(end) {
			return err
		}
		v.k = nil
		pause(5 * time.Millisecond)
	}
}

// pause is for tries that failed.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _ = unix.Ppoll(nil, &t, nil)
}

func (v *victim) attach() error {
	o := funet.Options{Attach: &attach.Config{Socket: v.c.Socket, GID: v.c.GID, Node: v.self, Token: v.token,
		Slots: 256, Timeout: patience}}
	k, _, err := o.Carrier(context.Background())
	if err != nil {
		return err
	}
	m, err := k.Segment(segmentBase, segmentBytes, funi.Source|funi.Destination)
	if err != nil {
		return errors.Join(err, k.Close(0))
	}
	v.segment = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(m))), len(m)/4)
	v.k, v.iface = k, k.Interface()
	return nil
}

// talk exchanges messages until the end.
func (v *victim) talk() error {
	report := time.Now().Add(reportEvery)
	for {
		v.now = time.Now()
		if v.k.Err() != nil {
			return v.k.Err()
		}
		if err := v.look(); err != nil {
			return err
		}
		command := v.command.Load()
		if command >= going {
			if err := v.send(command == going); err != nil {
				return err
			}
			if command == going && v.luring.Load() {
				v.lure()
			}
		}
		if v.now.After(report) {
			fmt.Println("w", v.answered, v.done)
			v.answered, v.done = 0, 0
			report = v.now.Add(reportEvery)
		}
		if command == ending {
			return nil
		}
		if command == stopping && !v.quiet && v.settled() {
			v.quiet = true
			fmt.Println("quiet")
		}
		v.k.Drive()
	}
}

// lure sends a message to the neighbour.
func (v *victim) lure() {
	if v.now.Before(v.lured.Add(lureEvery)) {
		return
	}
	if s := v.iface.Reserve(funi.Request); s != nil {
		s.SetHeader(funi.NewHeader(v.c.Lure, typeRequest, 1))
		v.iface.Commit(funi.Request)
		v.lured = v.now
	}
}

// settled reports whether everything is answered.
func (v *victim) settled() bool {
	for i := range v.requests {
		if v.requests[i].open {
			return false
		}
	}
	return !v.block.open
}

// met notes which life of the peer speaks. What an earlier one has not answered is sent
// again.
func (v *victim) met(life uint32) {
	if life == v.peerLife {
		return
	}
	if v.peerLife != 0 && int32(life-v.peerLife) > 0 || v.peerLife == 0 {
		if v.peerLife != 0 {
			v.sendAllAgain()
		}
		v.peerLife = life
	}
}

// sendAllAgain has everything sent again that is not answered.
func (v *victim) sendAllAgain() {
	for i := range v.requests {
		v.requests[i].retry(v.now)
	}
	v.block.retry(v.now)
}

func (p *pending) retry(at time.Time) {
	if p.open && p.sent {
		p.sent, p.due = false, at
		p.attempt++
	}
}

// send sends what is due.
func (v *victim) send(more bool) error {
	for i := range v.requests {
		p := &v.requests[i]
		if !p.open {
			if !more || v.next%inFlight != uint32(i) {
				continue
			}
			*p = pending{number: v.next, open: true, due: v.now}
			v.next++
			v.since++
		}
		if err := v.push(p, v.sendRequest); err != nil {
			return err
		}
	}
	if !v.block.open && more && v.since >= blockEvery {
		v.since = 0
		v.block = pending{number: v.block.number + 1, open: true, due: v.now}
	}
	return v.push(&v.block, v.sendBlock)
}

// push sends one thing if it is due, and looks after what was sent long ago.
func (v *victim) push(p *pending, send func(*pending) bool) error {
	switch {
	case !p.open || v.now.Before(p.due):
	case !p.sent:
		if send(p) {
			p.sent, p.due = true, v.now.Add(lostAfter)
			if v.c.Storm {
				p.due = v.now.Add(stormPatience)
			}
		}
	case !v.c.Storm:
		return v.bad("number %d was neither answered nor returned within %v", p.number, lostAfter)
	default:
		v.late++
		p.retry(v.now)
	}
	return nil
}

func (v *victim) sendRequest(p *pending) bool {
	s := v.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	w := s[funi.PayloadWord : funi.PayloadWord+requestWords]
	w[numberWord], w[lifeWord], w[attemptWord] = p.number, v.life, p.attempt
	fill(v.c.Key, v.self, v.peer, typeRequest, w)
	s.SetHeader(funi.NewHeader(v.peer, typeRequest, requestWords))
	v.iface.Commit(funi.Request)
	return true
}

// sendBlock sends a block once the card needs the last one's source no more: its slot, and
// so all slots, are retired.
func (v *victim) sendBlock(p *pending) bool {
	if p.attempt > 0 && v.iface.Unsent(funi.Request) > 0 {
		return false
	}
	s := v.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	fillBlock(v.c.Key, v.segment[:blockWords], p.number, v.life, p.attempt)
	s.SetTransfer(v.peer, typeBlock, funi.Transfer{Source: segmentBase, Destination: blockPlace(p.number, p.attempt),
		Argument: blockArgument | p.number, Words: blockWords})
	v.iface.Commit(funi.Request)
	return true
}
