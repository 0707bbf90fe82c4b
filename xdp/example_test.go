package xdp_test

import (
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// etherType is that of the example's frames (IEEE 802: local experimental).
const etherType = 0x88b5

// end is an AF_XDP socket with its memory.
type end struct {
	umem   *xdp.UMEM
	socket *xdp.Socket
}

// openEnd opens queue 0 of an interface of the calling thread's network namespace.
func openEnd(iface string) (*end, error) {
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameCount: 64})
	if err != nil {
		return nil, err
	}
	// The first half of the frames is the kernel's from the start, to receive into.
	var frames []uint64
	for i := range uint64(32) {
		frames = append(frames, i*uint64(umem.Config().FrameSize))
	}
	s, err := xdp.Open(xdp.SocketConfig{Interface: iface, UMEM: umem, Frames: frames})
	if err != nil {
		return nil, errors.Join(err, umem.Close())
	}
	return &end{umem, s}, nil
}

func (e *end) Close() error { return errors.Join(e.socket.Close(), e.umem.Close()) }

// send sends one frame, from the last of the UMEM.
func (e *end) send(frame []byte) error {
	at := uint64(e.umem.Config().FrameCount-1) * uint64(e.umem.Config().FrameSize)
	tx := e.socket.Tx()
	if tx.Reserve(1) == 0 {
		return errors.New("the transmit ring is full")
	}
	tx.Set(0, xdp.Desc{Addr: at, Len: uint32(copy(e.umem.Span(at, 2048), frame))})
	tx.Submit(1)
	for {
		if err := e.socket.Kick(); !errors.Is(err, xdp.ErrTxPending) {
			return err
		}
	}
}

// receive waits for a frame, calls f with it and gives it back to the kernel.
func (e *end) receive(f func(frame []byte)) {
	rx, fill := e.socket.Rx(), e.socket.Fill()
	for rx.Peek(1) == 0 {
	}
	d := rx.At(0)
	f(e.umem.Data(d))
	rx.Release(1)
	if fill.Reserve(1) == 1 {
		fill.Set(0, d.Addr)
		fill.Submit(1)
	}
}

// A frame goes from the memory of one process to that of another, without the kernel's network
// stack: the program on the interface gives frames of one EtherType to the socket, and all others
// to the kernel.
func Example() {
	l, err := lab.Up(lab.Options{Hosts: 2}) // two network namespaces, joined by a veth pair fu0
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	frame := append(append([]byte{}, l.Hosts()[1].Interfaces[0].MAC...), l.Hosts()[0].Interfaces[0].MAC...)
	frame = append(frame, etherType>>8, etherType&0xff)
	frame = append(frame, "straight into memory"...)
	frame = append(frame, make([]byte, 60-len(frame))...)

	ready, done := make(chan struct{}), make(chan error, 2)
	go func() {
		done <- l.Do(1, func() error {
			defer close(ready)
			to, err := openEnd("fu0")
			if err != nil {
				return err
			}
			defer to.Close()
			p, err := xdp.NewRedirectProgram(xdp.RedirectConfig{EtherType: etherType, Queues: 1})
			if err != nil {
				return err
			}
			defer p.Close()
			if err := to.socket.Register(p.Sockets, 0); err != nil {
				return err
			}
			i, err := net.InterfaceByName("fu0")
			if err != nil {
				return err
			}
			a, err := xdp.Attach(p.Program, i.Index, xdp.AttachGeneric)
			if err != nil {
				return err
			}
			defer a.Close()
			ready <- struct{}{}
			to.receive(func(b []byte) { fmt.Printf("%s\n", b[14:34]) })
			return nil
		})
	}()
	if _, there := <-ready; there {
		done <- l.Do(0, func() error {
			from, err := openEnd("fu0")
			if err != nil {
				return err
			}
			defer from.Close()
			return from.send(frame)
		})
	} else {
		done <- nil
	}
	if err := errors.Join(<-done, <-done); err != nil {
		fmt.Println(err)
	}
	// Output: straight into memory
}
