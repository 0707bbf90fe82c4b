// Command example lets the nodes of a job count together by virtual communication instructions:
// each sends its window's capability to the node before it, which adds to its counter, and all meet
// at barriers. At last each counter has what its neighbour has added.
//
//	go build -o ports ./uspace/virtni/example
//	funet run -n 3 --card daemon ./ports
package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/funi/example/job"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/virtni"
)

const (
	base    = 0x10000 // address of the segment
	bytes   = 4096    // its size
	numbers = 500     // that each node adds
	most    = 64      // nodes
)

func main() {
	job.Run("ports", funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 64}, 2, most, run)
}

// node is a node of the job, with a port.
type node struct {
	*virtni.Port
	before uint16 // the node before this one
	nodes  int
}

func run(j *job.Node) error {
	ports, err := virtni.Open(rand.Reader, j.Step, j.Iface)
	if err != nil {
		return err
	}
	n := &node{Port: ports[0], before: uint16((int(j.Number) + j.Nodes() - 1) % j.Nodes()), nodes: j.Nodes()}
	s := funi.Segment{Base: base, Rights: funi.Keyed}
	if s.Memory, err = j.Segment(s.Base, bytes, s.Rights); err != nil {
		return err
	}
	if err := n.Use(s); err != nil {
		return err
	}
	if err := n.OpenReceive(nil, 8); err != nil { // short messages, in their notifications
		return err
	}
	w, err := n.OpenWindow(s.Memory[:8], rma.Options{})
	if err != nil {
		return err
	}
	if err := n.count(w.Capability(), w.Number()); err != nil {
		return err
	}
	if sum := binary.LittleEndian.Uint64(w.Memory); sum != numbers*(numbers+1)/2 {
		return fmt.Errorf("the counter of node %d is %d", j.Number, sum)
	}
	if j.Number == 0 {
		fmt.Printf("%d nodes have added %d numbers each\n", n.nodes, numbers)
	}
	return nil
}

// count tells the node before the capability, adds to the next node's counter, and waits until all
// have.
func (n *node) count(capability uint64, window uint16) error {
	if err := n.meet(0); err != nil { // all receive messages
		return err
	}
	v := virtni.VCI{Target: virtni.Target{VPID: n.before}, Words: []uint64{capability, uint64(window)}}
	if err := n.FastSend(&v); err != nil {
		return err
	}
	x, err := n.await(virtni.NotifyFastReceive)
	if err != nil {
		return err
	}
	target := virtni.Target{VPID: x.VPID, Capability: x.Words[0], Window: uint16(x.Words[1])}
	for i := uint64(1); i <= numbers; i++ {
		if err := n.FetchAndAdd(&virtni.VCI{Target: target, Addend: i}); err != nil {
			return err
		}
		if x, err = n.await(virtni.NotifyCompletion); err != nil {
			return err
		}
	}
	if x.Words[0] != numbers*(numbers+1)/2 {
		return fmt.Errorf("the counter of node %d is %d after the last addition", target.VPID, x.Words[0])
	}
	return n.meet(1)
}

// await waits for a notification, which must be of the given command.
func (n *node) await(c virtni.Command) (x virtni.Notification, err error) {
	if err = n.Wait(&x); err == nil && x.Command != c {
		err = fmt.Errorf("a notification of a %v, and not of a %v", x.Command, c)
	}
	if err == nil {
		err = x.Err
	}
	return x, err
}

// meet waits until all nodes have reached a barrier.
func (n *node) meet(number uint8) error {
	s, err := n.Barrier(number, n.nodes)
	if err == nil {
		err = s.Err()
	}
	if err == nil {
		_, err = n.await(virtni.NotifyBarrier)
	}
	return err
}
