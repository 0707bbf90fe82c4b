package program

// This file is the program of rma.go through package virtni: the same measurements by instructions
// that are issued by triggers.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

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

const (
	messageBytes = 64 // of a message: more than a notification has room for
	// messageRing is where the receive ring lies, and also its bytes: behind the words that are
	// sent.
	messageRing = 1 << 12
)

// portFace is the face of package virtni.
type portFace struct {
	*rmaNode
	*virtni.Port
	window *virtni.Window
	target virtni.Target
	early  []virtni.Notification // that came while another was awaited

	said, operation virtni.VCI // instructions of round trips
}

func openPort(ctx context.Context, c funet.Carrier, of *rmaNode) (rmaFace, error) {
	n := &portFace{rmaNode: of, target: virtni.Target{VPID: of.peer, Window: rmaWindow & 0xffff,
		Capability: rmaWindow >> 16}}
	ports, err := virtni.Open(rand.Reader, driven(ctx, c), c.Interface())
	if err != nil {
		return nil, err
	}
	n.Port = ports[0]
	if err := n.Use(funi.Segment{Base: rmaBase, Memory: n.memory, Rights: funi.Keyed | funi.Source}); err != nil {
		return nil, err
	}
	if n.Do == RMASend { // before the window: the other sends when it sees that
		if err := n.OpenReceive(n.memory[messageRing:][:messageRing], rmaCredit); err != nil {
			return nil, err
		}
	}
	n.window, err = n.OpenWindow(n.memory, rma.Options{Key: rmaWindow, Notifications: rmaCredit})
	n.said = virtni.VCI{Target: n.target.At(rmaWord), Words: make([]uint64, 1), Notify: n.Do == RMANotify}
	if n.Do == RMASend {
		n.said = virtni.VCI{Target: virtni.Target{VPID: n.peer}, Origin: n.window, Bytes: messageBytes}
	}
	n.operation = virtni.VCI{Target: n.target.At(rmaTable), Count: 1, Addend: 1}
	return n, err
}

// meet waits until the other node's window is open.
func (n *portFace) meet(end time.Time) error {
	for {
		x, err := n.complete(n.FastGet(&virtni.VCI{Target: n.target, Count: 1}))
		if err == nil || x.Err == nil || !errors.Is(err, virtni.CodeCapability) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("meeting node %d: it has not opened its memory; is it running?", n.peer)
		}
		again := time.Now().Add(rmaAgain)
		if err := n.Until(func() bool { return time.Now().After(again) }); err != nil {
			return err
		}
	}
}

// next waits for a notification of a command, and keeps others that come before it.
func (n *portFace) next(c virtni.Command) (x virtni.Notification, err error) {
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
func (n *portFace) complete(err error) (x virtni.Notification, _ error) {
	if err := n.issue(err, 1); err != nil {
		return x, err
	}
	return n.next(virtni.NotifyCompletion)
}

// issue issues instructions that were composed without an error.
func (n *portFace) issue(err error, count int) error {
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

func (n *portFace) until(done func() bool) error { return n.Until(done) }
func (n *portFace) quiet() error                 { return n.Quiet() }

func (n *portFace) told() (int, error) {
	x, err := n.next(virtni.NotifyRemoteAccess)
	return int(x.UserTag), err
}

func (n *portFace) tell(number int) error {
	return n.issue(n.FastPut(&virtni.VCI{Target: n.target, UserTag: uint64(number), Notify: true}), 1)
}

func (n *portFace) say(i uint64) error {
	if n.Do == RMASend {
		binary.NativeEndian.PutUint64(n.memory[:messageBytes], i)
		return n.issue(n.Send(&n.said), 1)
	}
	n.said.Words[0] = i
	return n.issue(n.FastPut(&n.said), 1)
}

func (n *portFace) heard(i uint64) error {
	switch n.Do {
	case RMASend:
		x, err := n.next(virtni.NotifyReceive)
		if err != nil {
			return err
		}
		if len(x.Data) != messageBytes || binary.NativeEndian.Uint64(x.Data) != i {
			return fmt.Errorf("%w: message %d came with %d bytes", apps.ErrVerify, i, len(x.Data))
		}
		n.Release(&x)
		return nil
	case RMANotify:
		if _, err := n.told(); err != nil {
			return err
		}
		return n.notified(i)
	}
	return n.Until(func() bool { return n.word(rmaWord) == i })
}

// one issues as many instructions at a time as a trigger can.
func (n *portFace) one(i int) error {
	n.said.Target, n.said.Words[0] = n.target.At(uint64(rmaTable+i%rmaPlaces*rmaBytes)), uint64(i+1)
	err := n.FastPut(&n.said)
	if n.Unissued() >= funi.MaxIssue {
		err = n.issue(err, funi.MaxIssue)
	}
	if err == nil && i == n.Count-1 {
		if err = n.Quiet(); err == nil {
			err = n.tell(0)
		}
	}
	return err
}

// blockAt returns an instruction on the memory of a block at both ends.
func (n *portFace) blockAt(i int) virtni.VCI {
	at := uint64(n.place(i))
	return virtni.VCI{Target: n.target.At(at), UserTag: uint64(i), Origin: n.window, Offset: at, Bytes: n.Block}
}

func (n *portFace) put(i int) error {
	v := n.blockAt(i)
	v.Notify = true
	return n.issue(n.Put(&v), 1)
}

func (n *portFace) get(i int) error {
	v := n.blockAt(i)
	return n.issue(n.Get(&v), 1)
}

func (n *portFace) got() (int, error) {
	x, err := n.next(virtni.NotifyCompletion)
	return int(x.UserTag), err
}

// operate has RMASwap compare, too. The answers to RMAAdd and RMASwap are the new values.
func (n *portFace) operate(_ int, was uint64) error {
	v, do, want := &n.operation, n.FastGet, was
	switch n.Do {
	case RMAAdd:
		do, want = n.FetchAndAdd, was+1
	case RMASwap:
		do, v.Compare, v.Swap, want = n.CompareAndSwap, was, was+1, was+1
	}
	x, err := n.complete(do(v))
	if err == nil && (x.Index != v.Index || x.Words[0] != want) {
		err = fmt.Errorf("%w: %s %d answers %d as %d, want %d", apps.ErrVerify, n.Do, v.Index, x.Words[0], x.Index, want)
	}
	return err
}
