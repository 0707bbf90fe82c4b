package program

// This file is the program of rma.go through package virtni: the same measurements by instructions
// that are issued by triggers.

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/virtni"
)

// FaceVirtni is the value of RMAOptions.Face for package virtni.
const FaceVirtni = "virtni"

// portSizes are those of a port: notifications of the other's puts, and completions.
var portSizes = funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 1024}

// portNode is a node with a port.
type portNode struct {
	RMAOptions
	*virtni.Port
	memory []byte
	window *virtni.Window
	peer   virtni.Target
	first  bool                  // this is node 0
	early  []virtni.Notification // that came while another was awaited
}

// openPort opens the process's place and runs the program through a port.
func (o RMAOptions) openPort(ctx context.Context, f *Flags) (r *RMAResult, err error) {
	do, err := measurement(map[string]func(*portNode, *RMAResult) error{
		RMAPut: (*portNode).roundTrips, RMANotify: (*portNode).roundTrips, RMARate: (*portNode).rate,
		RMABulk: (*portNode).bulk,
		RMAGet:  (*portNode).operations, RMAAdd: (*portNode).operations, RMASwap: (*portNode).operations,
		RMAGets: (*portNode).gets, RMASend: (*portNode).sends}, o.Do)
	if err != nil {
		return nil, err
	}
	r = new(RMAResult)
	r.Place, err = onCarrier(ctx, f, portSizes, func(c funet.Carrier, node int) (err error) {
		n, err := newPortNode(ctx, c, o, node)
		if err == nil {
			err = n.meet(time.Now().Add(f.Wait))
		}
		if err != nil {
			return err
		}
		// the others hear of everything by notifications
		c.Interface().Watch(n.Do == RMAPut || n.Do == RMARate)
		return do(n, r)
	})
	return r, err
}

func newPortNode(ctx context.Context, c funet.Carrier, o RMAOptions, node int) (n *portNode, err error) {
	n = &portNode{RMAOptions: o, first: node == 0, peer: virtni.Target{VPID: uint16(1 - node),
		Window: rmaWindow & 0xffff, Capability: rmaWindow >> 16}}
	if n.memory, err = c.Segment(rmaBase, rmaBlocks+rmaDepth*o.Block, funi.Keyed|funi.Source); err != nil {
		return nil, err
	}
	ports, err := virtni.Open(rand.Reader, driven(ctx, c), c.Interface())
	if err != nil {
		return nil, err
	}
	n.Port = ports[0]
	if err := n.Use(funi.Segment{Base: rmaBase, Memory: n.memory, Rights: funi.Keyed | funi.Source}); err != nil {
		return nil, err
	}
	if o.Do == RMASend { // before the window: the other sends when it sees that
		if err := n.OpenReceive(n.memory[messageRing:][:messageRing], rmaCredit); err != nil {
			return nil, err
		}
	}
	n.window, err = n.OpenWindow(n.memory, rma.Options{Key: rmaWindow, Notifications: rmaCredit})
	return n, err
}

// meet waits until the other node's window is open.
func (n *portNode) meet(end time.Time) error {
	for {
		x, err := n.complete(n.FastGet(&virtni.VCI{Target: n.peer, Count: 1}))
		if err == nil || x.Err == nil || !errors.Is(err, virtni.CodeCapability) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("meeting node %d: it has not opened its memory; is it running?", n.peer.VPID)
		}
		again := time.Now().Add(rmaAgain)
		if err := n.Until(func() bool { return time.Now().After(again) }); err != nil {
			return err
		}
	}
}

// next waits for a notification of a command, and keeps others that come before it.
func (n *portNode) next(c virtni.Command) (x virtni.Notification, err error) {
	if i := slices.IndexFunc(n.early, func(x virtni.Notification) bool { return x.Command == c }); i >= 0 {
		x = n.early[i]
		n.early = slices.Delete(n.early, i, i+1)
		return x, x.Err
	}
	for {
		if err := n.Wait(&x); err != nil {
			return x, err
		}
		if x.Command == c {
			return x, x.Err
		}
		n.early = append(n.early, x)
	}
}

// complete issues an instruction that was composed without an error, and waits for its completion.
func (n *portNode) complete(err error) (x virtni.Notification, _ error) {
	if err := n.issue(err, 1); err != nil {
		return x, err
	}
	return n.next(virtni.NotifyCompletion)
}

// issue issues instructions that were composed without an error.
func (n *portNode) issue(err error, count int) error {
	for count > 0 && err == nil {
		var took int
		var s virtni.Status
		if took, s, err = n.Issue(count); err == nil && s > funi.TriggerFull {
			err = s.Err()
		}
		count -= took
	}
	return err
}

// told waits for a put with a notification and returns its tag.
func (n *portNode) told() (tag uint64, err error) {
	x, err := n.next(virtni.NotifyRemoteAccess)
	return x.UserTag, err
}

// tell notifies the other node.
func (n *portNode) tell(tag uint64) error {
	return n.issue(n.FastPut(&virtni.VCI{Target: n.peer, UserTag: tag, Notify: true}), 1)
}

// word returns a word of this node's memory that the other node's puts change.
func (n *portNode) word(offset int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&n.memory[offset])))
}

// roundTrips is rmaNode.roundTrips.
func (n *portNode) roundTrips(r *RMAResult) error {
	v := virtni.VCI{Target: n.peer.At(rmaWord), Words: make([]uint64, 1), Notify: n.Do == RMANotify}
	var i uint64
	say := func() error {
		v.Words[0] = i
		return n.issue(n.FastPut(&v), 1)
	}
	came := func() bool { return n.word(rmaWord) == i }
	t, err := times(n.WarmUp, n.Count, func(trip int) (err error) {
		if i = uint64(trip + 1); n.first {
			if err := say(); err != nil {
				return err
			}
		}
		if !v.Notify {
			err = n.Until(came)
		} else if _, err = n.told(); err == nil && !came() {
			err = fmt.Errorf("%w: notification %d came with %d in memory", apps.ErrVerify, i, n.word(rmaWord))
		}
		if err == nil && !n.first {
			err = say()
		}
		return err
	})
	if n.first {
		r.trips = t
	}
	if err != nil {
		return err
	}
	return n.Quiet()
}

const (
	messageBytes = 64 // of a message: more than a notification has room for
	// messageRing is where the receive ring lies, and also its bytes: behind the words that are
	// sent.
	messageRing = 1 << 12
)

// sends sends a message, and waits until the same comes back.
func (n *portNode) sends(r *RMAResult) error {
	v := virtni.VCI{Target: virtni.Target{VPID: n.peer.VPID}, Origin: n.window, Bytes: messageBytes}
	out := n.memory[:messageBytes]
	t, err := times(n.WarmUp, n.Count, func(trip int) error {
		say := func() error {
			binary.NativeEndian.PutUint64(out, uint64(trip+1))
			return n.issue(n.Send(&v), 1)
		}
		if n.first {
			if err := say(); err != nil {
				return err
			}
		}
		x, err := n.next(virtni.NotifyReceive)
		if err != nil {
			return err
		}
		if len(x.Data) != messageBytes || binary.NativeEndian.Uint64(x.Data) != uint64(trip+1) {
			return fmt.Errorf("%w: message %d came with %d bytes", apps.ErrVerify, trip+1, len(x.Data))
		}
		n.Release(&x)
		if !n.first {
			return say()
		}
		return nil
	})
	if n.first {
		r.trips = t
	}
	if err != nil {
		return err
	}
	return n.Quiet()
}

// rate is rmaNode.rate: node 1 puts 8 bytes at a time, and says when all are there.
func (n *portNode) rate(r *RMAResult) error {
	if n.first {
		if err := n.Until(func() bool { return n.word(rmaTable) != 0 }); err != nil {
			return err
		}
		begin := time.Now()
		if _, err := n.told(); err != nil {
			return err
		}
		r.Rate = float64(n.Count) / time.Since(begin).Seconds()
		for i := n.Count - min(n.Count, rmaPlaces); i < n.Count; i++ {
			if got := n.word(rmaTable + i%rmaPlaces*rmaBytes); got != uint64(i+1) {
				return fmt.Errorf("%w: put %d left %d", apps.ErrVerify, i+1, got)
			}
		}
		return n.tell(0)
	}
	v := virtni.VCI{Words: make([]uint64, 1)}
	for i := range n.Count {
		v.Target, v.Words[0] = n.peer.At(uint64(rmaTable+i%rmaPlaces*rmaBytes)), uint64(i+1)
		err := n.FastPut(&v)
		if w := n.Unissued(); w >= funi.MaxIssue {
			err = n.issue(err, funi.MaxIssue)
		}
		if err != nil {
			return err
		}
	}
	if err := n.Quiet(); err != nil {
		return err
	}
	if err := n.tell(0); err != nil {
		return err
	}
	_, err := n.told()
	return err
}

// block returns the memory of a block.
func (n *portNode) block(i int) []byte {
	at := rmaBlocks + i%rmaDepth*n.Block
	return n.memory[at : at+n.Block]
}

// blockAt returns an instruction on the memory of a block at both ends.
func (n *portNode) blockAt(i int) virtni.VCI {
	at := uint64(rmaBlocks + i%rmaDepth*n.Block)
	return virtni.VCI{Target: n.peer.At(at), UserTag: uint64(i), Origin: n.window, Offset: at, Bytes: n.Block}
}

// bulk is rmaNode.bulk.
func (n *portNode) bulk(r *RMAResult) error {
	pattern := make([]byte, n.Block)
	for i := range pattern {
		pattern[i] = byte(i*7 + i>>8)
	}
	if !n.first {
		for done := range n.Count {
			tag, err := n.told()
			if err != nil {
				return err
			}
			i, b := int(tag), n.block(int(tag))
			if !stamped(b, i) || i >= n.Count-rmaDepth &&
				!bytes.Equal(b[rmaBytes:n.Block-rmaBytes], pattern[rmaBytes:n.Block-rmaBytes]) {
				return fmt.Errorf("%w: block %d is damaged, after %d", apps.ErrVerify, i, done)
			}
			if err := n.tell(tag); err != nil {
				return err
			}
		}
		return n.Quiet()
	}
	for i := range rmaDepth {
		copy(n.block(i), pattern)
	}
	var busy [rmaDepth]bool
	under := 0
	take := func() error {
		tag, err := n.told()
		busy[tag%rmaDepth] = false
		under--
		return err
	}
	begin := time.Now()
	for i := range n.Count {
		for busy[i%rmaDepth] {
			if err := take(); err != nil {
				return err
			}
		}
		stamp(n.block(i), i)
		busy[i%rmaDepth] = true
		under++
		v := n.blockAt(i)
		v.Notify = true
		if err := n.issue(n.Put(&v), 1); err != nil {
			return err
		}
	}
	for under > 0 {
		if err := take(); err != nil {
			return err
		}
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	return n.Quiet()
}

// operations is rmaNode.operations; RMASwap is a compare-and-swap.
func (n *portNode) operations(r *RMAResult) error {
	if !n.first {
		binary.NativeEndian.PutUint64(n.memory[rmaTable:], 1)
		if err := n.tell(0); err != nil { // the word is there
			return err
		}
		_, err := n.told()
		return err
	}
	if _, err := n.told(); err != nil {
		return err
	}
	v := virtni.VCI{Target: n.peer.At(rmaTable), Count: 1, Addend: 1}
	do, want := n.FastGet, uint64(1)
	var err error
	r.trips, err = times(n.WarmUp, n.Count, func(i int) error {
		switch n.Do {
		case RMAAdd:
			do, want = n.FetchAndAdd, want+1
		case RMASwap:
			do, v.Compare, v.Swap, want = n.CompareAndSwap, want, want+1, want+1
		}
		x, err := n.complete(do(&v))
		if err == nil && (x.Index != v.Index || x.Words[0] != want) {
			err = fmt.Errorf("%w: %s %d answers %d as %d, want %d", apps.ErrVerify, n.Do, v.Index, x.Words[0], x.Index, want)
		}
		return err
	})
	if err != nil {
		return err
	}
	return n.tell(0)
}

// gets is rmaNode.gets.
func (n *portNode) gets(r *RMAResult) error {
	if !n.first {
		for i := range rmaDepth {
			b := n.block(i)
			for j := range b {
				b[j] = byte(j*7 + j>>8 + i)
			}
			stamp(b, i)
		}
		if err := n.tell(0); err != nil { // the blocks are there
			return err
		}
		_, err := n.told()
		return err
	}
	if _, err := n.told(); err != nil {
		return err
	}
	begin, asked := time.Now(), 0
	get := func() error {
		clear(n.block(asked)[:rmaBytes])
		clear(n.block(asked)[n.Block-rmaBytes:])
		v := n.blockAt(asked)
		asked++
		return n.issue(n.Get(&v), 1)
	}
	for asked < min(rmaDepth, n.Count) {
		if err := get(); err != nil {
			return err
		}
	}
	for range n.Count {
		x, err := n.next(virtni.NotifyCompletion)
		if err != nil {
			return err
		}
		i := int(x.UserTag)
		if b := n.block(i); !stamped(b, i%rmaDepth) || b[n.Block/2] != byte(n.Block/2*7+n.Block/2>>8+i%rmaDepth) {
			return fmt.Errorf("%w: block %d is damaged", apps.ErrVerify, i)
		}
		if asked < n.Count {
			if err := get(); err != nil {
				return err
			}
		}
	}
	r.Goodput = float64(n.Count) * float64(n.Block) * 8 / float64(time.Since(begin).Nanoseconds())
	return n.tell(0)
}
