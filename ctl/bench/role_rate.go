package bench

// This file is the UDP sender and receiver of Rate, on the parent's and the child's side.
//
// A pair's server is host 1, which sends, as FUNet's does in Rate. The sender numbers its datagrams
// and sends them rateBatch a system call, as fast as the kernel takes them. Datagrams that find no
// room in the receiver's socket are lost, because the kernel limits a sender by nothing. Then the
// sender says goodbye until it is answered, so that neither end waits for lost datagrams:
//
//	sender                      receiver
//	0, 1, ... n-1   ------>     counts, and looks at the clock after each batch
//	goodbye (n)     ------>     repeated every millisecond
//	                <------     goodbye

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/rawxdp"
)

const (
	roleSendmmsg = "sendmmsg"
	// socketBuffer is the requested size of the sockets' buffers, in bytes. It holds some thousands
	// of datagrams, so that the receiver loses none to a short absence.
	socketBuffer = 8 << 20
	// goodbyes is how long the sender waits for an answer before it says goodbye again.
	goodbyes = time.Millisecond
)

// count is the result of a turn at one end: the receiver's arrived datagrams, the sender's sent
// ones.
type count struct {
	Arrived   int     `json:"arrived,omitempty"`
	PerSecond float64 `json:"arrived_per_s,omitempty"`
	Offered   float64 `json:"offered_per_s,omitempty"`
}

// countDatagrams runs one turn of UDP between two fresh processes.
func (s *session) countDatagrams(ctx context.Context, datagrams int) (total count, err error) {
	p, err := s.startPair(ctx, roleSendmmsg, roleConfig{Exchanges: datagrams})
	if err != nil {
		return count{}, err
	}
	defer p.end()
	err = p.turn(ctx, &total, &total) // each end says its part
	return total, err
}

// mmsghdr is struct mmsghdr (sendmmsg(2)): a message, and its length from the kernel.
type mmsghdr struct {
	message unix.Msghdr
	length  uint32
}

// datagrams is one end with a batch of buffers. Each datagram begins with its number.
type datagrams struct {
	*socketLink
	c       roleConfig
	headers [rateBatch]mmsghdr
	vectors [rateBatch]unix.Iovec
	data    [rateBatch][ratePayload]byte
}

func openDatagrams(c roleConfig) (end, error) {
	l, err := openSocket(c, false)
	if err != nil {
		return nil, err
	}
	d := newDatagrams(l.(*socketLink))
	d.c = c
	// Beyond the limits for ordinary users, net.core.rmem_max and wmem_max (socket(7)).
	for _, option := range []int{unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		if err := unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, option, socketBuffer); err != nil {
			return nil, errors.Join(fmt.Errorf("set the buffers of the socket on %s: %w; this needs CAP_NET_ADMIN",
				c.Local, err), d.Close())
		}
	}
	return d, nil
}

func newDatagrams(l *socketLink) *datagrams {
	d := &datagrams{socketLink: l}
	for i := range d.headers {
		d.vectors[i].Base = &d.data[i][0]
		d.vectors[i].SetLen(ratePayload)
		d.headers[i].message.Iov = &d.vectors[i]
		d.headers[i].message.SetIovlen(1)
	}
	return d
}

// run sends or counts the datagrams of a turn.
func (d *datagrams) run() (any, error) {
	if d.c.Server {
		return d.sendAll(uint64(d.c.Exchanges))
	}
	return d.receiveAll(uint64(d.c.Exchanges))
}

// batch sends or receives up to n datagrams in one system call.
func (d *datagrams) batch(trap uintptr, n int) (int, error) {
	done, _, errno := unix.RawSyscall6(trap, uintptr(d.fd), uintptr(unsafe.Pointer(&d.headers)), uintptr(n),
		unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		return int(done), nil
	case unix.EAGAIN, unix.EINTR, unix.ENOBUFS:
		return 0, nil
	}
	return 0, errno
}

// sendAll sends datagrams 0 to n-1 and says goodbye.
func (d *datagrams) sendAll(n uint64) (count, error) {
	begin := time.Now()
	for next, spin := uint64(0), (rawxdp.Spin{}); next < n; {
		want := int(min(n-next, rateBatch))
		for i := range want {
			binary.LittleEndian.PutUint64(d.data[i][:], next+uint64(i))
		}
		sent, err := d.batch(unix.SYS_SENDMMSG, want)
		if err != nil {
			return count{}, fmt.Errorf("send datagram %d: %w", next, err)
		}
		if sent > 0 {
			spin = rawxdp.Spin{}
		} else if !spin.More() {
			return count{}, fmt.Errorf("send datagram %d: the kernel has taken none for %v", next, rawxdp.Patience)
		}
		next += uint64(sent)
	}
	total := count{Offered: float64(n) / time.Since(begin).Seconds()}
	for end := time.Now().Add(rawxdp.Patience); time.Now().Before(end); {
		binary.LittleEndian.PutUint64(d.data[0][:], n)
		if _, err := d.batch(unix.SYS_SENDMMSG, 1); err != nil && err != unix.ECONNREFUSED {
			return count{}, fmt.Errorf("send a goodbye: %w", err)
		}
		for again := time.Now().Add(goodbyes); time.Now().Before(again); {
			got, err := d.batch(unix.SYS_RECVMMSG, 1)
			// The other end has answered and gone if a second goodbye was refused; the
			// Answer comes with the next look.
			if err != nil && err != unix.ECONNREFUSED {
				return count{}, fmt.Errorf("receive a goodbye: %w", err)
			}
			if got == 1 {
				return total, nil
			}
		}
	}
	return count{}, rawxdp.ErrNoMessage
}

// receiveAll counts datagrams below n until the goodbye, and answers it.
func (d *datagrams) receiveAll(n uint64) (count, error) {
	arrived := 0
	var first, last time.Time
	for spin := (rawxdp.Spin{}); ; {
		got, err := d.batch(unix.SYS_RECVMMSG, rateBatch)
		if err != nil {
			return count{}, fmt.Errorf("receive datagrams: %w", err)
		}
		if got == 0 {
			if !spin.More() {
				return count{}, rawxdp.ErrNoMessage
			}
			continue
		}
		spin = rawxdp.Spin{}
		counted, bye := 0, false
		for i := range got {
			switch number := binary.LittleEndian.Uint64(d.data[i][:]); {
			case d.headers[i].length != ratePayload || number > n:
				return count{}, fmt.Errorf("received %d bytes that begin with %d, want %d bytes with a number up to %d",
					d.headers[i].length, number, ratePayload, n)
			case number == n:
				bye = true
			default:
				counted++
			}
		}
		if counted > 0 {
			last = time.Now()
			if arrived == 0 {
				first = last
			}
			arrived += counted
		}
		if !bye {
			continue
		}
		binary.LittleEndian.PutUint64(d.data[0][:], n)
		if _, err := d.batch(unix.SYS_SENDMMSG, 1); err != nil {
			return count{}, fmt.Errorf("send a goodbye: %w", err)
		}
		took := last.Sub(first)
		if took <= 0 {
			return count{}, fmt.Errorf("%d datagrams of %d arrived, too few to tell a rate", arrived, n)
		}
		return count{Arrived: arrived, PerSecond: float64(arrived) / took.Seconds()}, nil
	}
}
