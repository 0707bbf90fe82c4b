package ports

// This file proves that this host can have direct ports. Two ports of a job of funid's own send
// each other frames through the guard, and the NIC program hands one of them a frame of another
// host. Making links, sockets and programs would prove nothing: a kernel may accept each of them
// and still lose the frames between them.

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

const (
	proveWithin = 10 * time.Second // how long a frame may take to arrive
	// sendAgain is how often a missing frame is sent again, and the context checked.
	sendAgain  = 100 * time.Millisecond
	lookForEnd = 5 * time.Millisecond // the time between two looks whether a test port is gone
)

// The nodes of the test job: two ports, and one behind the NIC.
const (
	firstNode = iota
	secondNode
	farNode
	testNodes
)

// farAddress is the address of farNode's host: locally administered, and not that of any host.
var farAddress = [6]byte{0x02, 'f', 'u', 'n', 'e', 't'}

// Proof is the result of Prove.
type Proof struct {
	Longest int // bytes of the longest frame
	// NIC says that the NIC program handed a frame to a port. It is false if the kernel offers no
	// way to test that (bpf.ErrLive), or in generic mode.
	NIC bool
}

// String describes the proof in words.
func (p Proof) String() string {
	s := fmt.Sprintf("two test ports exchanged frames of %d and %d bytes", bpf.FrameMin, p.Longest)
	if p.NIC {
		s += ", and one had some from the NIC's program"
	}
	return s
}

// trial is a port of the test job.
type trial struct {
	id   uint32
	port *afxdp.Port
}

// Prove proves that ports on links of an MTU carry frames and, in native mode, that the NIC program
// hands them frames. The calling thread may load programs, and is in the network namespace of the
// NICs. After Prove ports may be made in another mode. ErrFull reports that processes have all
// ports, or some of another mode.
func (c *Client) Prove(ctx context.Context, ifindex, mtu int, mode xdp.AttachMode) (p Proof, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("trying direct ports: %w", err)
		}
	}()
	var tag [8]byte
	_, _ = rand.Read(tag[:]) // it never fails
	// the group of the system, which no user has
	of := bpf.Job{Tag: binary.LittleEndian.Uint64(tag[:])}
	if _, err := c.AddJob(of, testNodes); err != nil {
		return p, err
	}
	var trials [farNode]trial
	defer func() {
		for _, t := range trials {
			if t.port != nil {
				err = errors.Join(err, c.endTrial(t))
			}
		}
		_, left := c.RemoveJob(of)
		err = errors.Join(err, left)
	}()
	for node := range trials {
		if trials[node], err = c.newTrial(bpf.Port{Job: of, Node: uint16(node)}, mtu, mode); err != nil {
			return p, err
		}
	}
	p.Longest = mtu + ethernet
	for _, size := range []int{bpf.FrameMin, p.Longest} {
		for from := range trials {
			to := len(trials) - 1 - from
			err := c.cross(ctx, testFrame(of, from, to, size), &trials[from], &trials[to], func(frame []byte) error {
				return trials[from].send(frame)
			})
			if err != nil {
				return p, err
			}
		}
	}
	if mode == xdp.AttachGeneric {
		return p, nil // the kernel tries programs in native mode only
	}
	p.NIC, err = c.proveNIC(ctx, of, &trials[firstNode], ifindex, mtu)
	return p, err
}

// proveNIC has a NIC program that is not attached hand test frames to a port.
func (c *Client) proveNIC(ctx context.Context, of bpf.Job, to *trial, ifindex, mtu int) (_ bool, err error) {
	shared, err := c.Switch()
	if err != nil {
		return false, err
	}
	defer shared.Close() // the program has the maps
	nic, err := bpf.LoadNIC(bpf.Load{Queues: 1, Switch: shared})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, nic.Close()) }()
	if _, err := c.Place(of, []int{-1, -1, 0},
		[]bpf.Place{{NIC: uint32(ifindex), Longest: mtu + ethernet,
			Way: bpf.EthernetWay(farAddress, farAddress, 0)}}); err != nil {
		return false, err
	}
	for _, size := range []int{bpf.FrameMin, mtu + ethernet} {
		err = c.cross(ctx, testFrame(of, farNode, firstNode, size), nil, to, func(frame []byte) error {
			return nic.Try(uint32(ifindex), frame)
		})
		if errors.Is(err, bpf.ErrLive) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// newTrial makes a port of the test job, and opens it as a process does.
func (c *Client) newTrial(of bpf.Port, mtu int, mode xdp.AttachMode) (t trial, err error) {
	fd, err := unix.MemfdCreate("a test port", unix.MFD_CLOEXEC)
	if err != nil {
		return t, fmt.Errorf("making memory: %w", err)
	}
	memory := os.NewFile(uintptr(fd), "a test port")
	defer memory.Close() // the port has mapped it
	g := afxdp.GeometryFor(mtu)
	if err := unix.Fallocate(fd, 0, 0, g.Bytes()); err != nil {
		return t, fmt.Errorf("making memory: %w", err)
	}
	made, err := c.Make(of, attach.Ticket{}, fd, g, mtu, mode)
	if err != nil {
		return t, err
	}
	t.id = made.ID
	t.port, err = afxdp.OpenDirect(afxdp.Direct{FD: made.FD, Memory: memory, Geometry: g, MTU: mtu})
	if err != nil {
		_, ended := c.End(made.ID)
		err = errors.Join(err, ended)
	}
	return t, err
}

// endTrial ends a trial, and waits until its port is gone: the kernel delays a socket's end.
func (c *Client) endTrial(t trial) error {
	err := t.port.Close()
	_, ended := c.End(t.id)
	if err = errors.Join(err, ended); err != nil {
		return err
	}
	for until := time.Now().Add(proveWithin); time.Now().Before(until); time.Sleep(lookForEnd) {
		if gone, _, err := c.Gone(t.id); gone || err != nil {
			return err
		}
	}
	return nil // the helper looks at it again
}

// testFrame composes a frame of size bytes from one node to another, with random contents.
func testFrame(of bpf.Job, from, to, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b[min(size, arctic.HeaderSize):]) // it never fails
	h := arctic.Header{Direct: true, GID: of.GID, Tag: of.Tag, SourceCard: uint16(from), DestinationCard: uint16(to)}
	if from == farNode {
		h.From = farAddress
	}
	h.Encode(b)
	arctic.Seal(b, size)
	return b
}

func (t *trial) send(frame []byte) error {
	if room := t.port.Reserve(); room != nil { // else it is sent the next time
		t.port.Commit(copy(room, frame))
	}
	t.port.Flush()
	return t.port.Err()
}

// cross sends a frame until it has arrived. A nil from stands for the NIC program.
func (c *Client) cross(ctx context.Context, frame []byte, from, to *trial, send func([]byte) error) error {
	want, changed := frame[arctic.EthernetSize:], 0
	for until := time.Now().Add(proveWithin); ; {
		if err := send(frame); err != nil {
			return err
		}
		for again := time.Now().Add(sendAgain); time.Now().Before(again); {
			if came, others := to.received(want); came {
				return nil
			} else {
				changed += others
			}
			ready := []unix.PollFd{{Fd: int32(to.port.FDs()[0]), Events: unix.POLLIN}}
			if _, err := unix.Poll(ready, int(time.Until(again)/time.Millisecond)+1); err != nil &&
				!errors.Is(err, unix.EINTR) {
				return fmt.Errorf("waiting for a frame: %w", err)
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if time.Now().After(until) {
			break
		}
	}
	lost := fmt.Sprintf("a frame of %d bytes from the NIC's program did not come", len(frame))
	if from != nil {
		n, err := c.Counters(from.id)
		if err != nil {
			return err
		}
		lost = fmt.Sprintf("a frame of %d bytes from port to port did not come; the guard counted %+v", len(frame), n)
	}
	return fmt.Errorf("%s within %v, and %d others: %w", lost, proveWithin, changed, ErrProof)
}

// ErrProof reports that frames do not get through ports of this host.
var ErrProof = errors.New("this kernel does not carry frames between ports")

// received reads the frames that have come. It reports whether one of them has these bytes behind
// its addresses, and the number of others.
func (t *trial) received(want []byte) (came bool, others int) {
	var frames [8][]byte
	for {
		n := t.port.Receive(frames[:])
		if n == 0 {
			return came, others
		}
		for _, f := range frames[:n] {
			if bytes.Equal(f[min(len(f), arctic.EthernetSize):], want) {
				came = true
			} else {
				others++
			}
		}
		t.port.Release()
	}
}
