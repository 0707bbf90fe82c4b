package bed

// This file is a pair of ports without a network between them, for measurements. They lose no
// frame, take no time and allocate nothing.

import "github.com/funet/funet/uspace/port"

// cable is one direction: a ring of frames. When the ring is full Reserve returns nil, as for a
// full transmit ring.
type cable struct {
	data        [][]byte
	size        []int
	first, sent int
}

// plug is one end of a pair of cables. It implements port.Port.
type plug struct {
	in, out *cable
	lent    int
}

// Cables returns two ports, joined by a ring in each direction of the given number of frames of
// size bytes.
func Cables(frames, size int) [2]port.Port {
	var c [2]*cable
	for i := range c {
		c[i] = &cable{data: make([][]byte, frames), size: make([]int, frames)}
		for j := range c[i].data {
			c[i].data[j] = make([]byte, size)
		}
	}
	return [2]port.Port{&plug{in: c[1], out: c[0]}, &plug{in: c[0], out: c[1]}}
}

func (p *plug) FrameSize() int { return len(p.out.data[0]) }

func (p *plug) Receive(frames [][]byte) int {
	n := 0
	for ; n < len(frames) && p.in.first+n < p.in.sent; n++ {
		i := (p.in.first + n) % len(p.in.data)
		frames[n] = p.in.data[i][:p.in.size[i]]
	}
	p.lent = n
	return n
}

func (p *plug) Release() { p.in.first += p.lent; p.lent = 0 }

func (p *plug) Reserve() []byte {
	if p.out.sent-p.out.first == len(p.out.data) {
		return nil
	}
	return p.out.data[p.out.sent%len(p.out.data)]
}

func (p *plug) Commit(n int) {
	p.out.size[p.out.sent%len(p.out.data)] = n
	p.out.sent++
}

func (p *plug) Flush() {}
