package hub

// This file is how a router talks to its neighbours (news.go), and what it concludes.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
)

// link is a wire to another router.
type link struct {
	socket *os.File
	mac    net.HardwareAddr
	heard  time.Time
	silent bool // the neighbour is
}

// message is what has come in by a port.
type message struct {
	port int
	data []byte
}

// take takes a message that has come in by a port, and passes on what is new in it. It reports
// whether the ways may have changed.
func (r *router) take(m message, now time.Time) (changed bool) {
	fresh := map[int]bool{}
	own := uint64(0)
	l := r.links[m.port]
	if !hear(r.network, m.data, func(from int, s state) {
		switch {
		case from >= len(r.states):
		case from == r.Router:
			own = max(own, s.number)
		case s.number > r.states[from].number:
			changed = changed || s.down != r.states[from].down
			if s.down != r.states[from].down {
				r.Tell(fmt.Sprintf("router %d says: ports down %s", from, ports(s.down)))
			}
			r.states[from], fresh[from] = s, true
		}
	}) {
		return false
	}
	l.heard = now
	if l.silent {
		l.silent = false
		r.Tell(fmt.Sprintf("port %d: router %d is there", m.port, r.neighbour(m.port)))
		changed = true
		r.say(r.states[r.Router].number + 1)
		r.send(func(int) bool { return true }, -1) // it may have started just now
	}
	if own > r.states[r.Router].number { // of an earlier life
		r.say(own + 1)
	}
	if len(fresh) > 0 {
		r.send(func(router int) bool { return fresh[router] }, m.port)
	}
	return changed
}

// look finds neighbours that have been silent for long, and reports whether there are more of them.
func (r *router) look(now time.Time) (changed bool) {
	for p, l := range r.links {
		if !l.silent && now.Sub(l.heard) > newsPatience {
			l.silent, changed = true, true
			r.Tell(fmt.Sprintf("port %d: router %d is silent", p, r.neighbour(p)))
		}
	}
	if changed {
		r.say(r.states[r.Router].number + 1)
	}
	return changed
}

// neighbour returns the router that a port leads to.
func (r *router) neighbour(p int) int {
	to, _, _ := r.Network.Wire(r.Router, p)
	return to
}

// down reports whether a port is down, or leads to a router that is not there.
func (r *router) down(p int) bool { return r.cut[p] || r.links[p] != nil && r.links[p].silent }

// say gives the router's own state a number, and tells the neighbours. It returns true.
func (r *router) say(number uint64) bool {
	s := state{number: number}
	for p := range r.Network.Radix() {
		if r.down(p) {
			s.down |= 1 << p
		}
	}
	r.states[r.Router] = s
	r.send(func(router int) bool { return router == r.Router }, -1)
	return true
}

// send sends the chosen routers' states by all ports to routers but one. What a link does not take
// is sent again within newsPeriod.
func (r *router) send(chosen func(router int) bool, except int) {
	for _, m := range compose(r.network, r.states, chosen) {
		for p, l := range r.links {
			if p != except && !r.cut[p] {
				_ = l.socket.SetWriteDeadline(time.Now().Add(newsPeriod / 10))
				_, _ = l.socket.Write(slices.Concat([]byte{255, 255, 255, 255, 255, 255}, l.mac,
					[]byte{newsEtherType >> 8, newsEtherType & 0xff}, m))
			}
		}
	}
}

// read hands the messages of a link on, until the context ends or the interface is gone.
func (l *link) read(ctx context.Context, p int, heard chan<- message) {
	stop := context.AfterFunc(ctx, func() { _ = l.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for ctx.Err() == nil {
		b := make([]byte, 2048)
		n, err := l.socket.Read(b)
		switch {
		case errors.Is(err, unix.ENETDOWN): // told once, when the link goes down
		case err != nil:
			return
		case n > arctic.EthernetSize:
			select {
			case heard <- message{p, b[arctic.EthernetSize:n]}:
			case <-ctx.Done():
			}
		}
	}
}

// listen opens a socket that receives the frames of a protocol that come in by an interface. While
// it is open the interface receives all frames (packet(7)).
func listen(index, protocol int) (*os.File, error) {
	network := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, uint16(protocol))))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(network), Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packet socket"), nil
}

// ports lists the ports that are bits of a mask.
func ports(mask uint8) string {
	if mask == 0 {
		return "none"
	}
	var list []string
	for p := range 8 {
		if mask>>p&1 != 0 {
			list = append(list, strconv.Itoa(p))
		}
	}
	return strings.Join(list, " ")
}
