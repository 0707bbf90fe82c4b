package sim

// This file has bundles on the Arctic model (package bundle). They travel as through the routers of
// bpf/hub.c: a bundle takes each link of the tree to its stations once. Where the ways part, the
// router makes copies in one buffer. Each copy waits for its own output section, and leaves when
// that is free. It waits for nothing but that, so bundles add no circle to what waits for what. Of
// one frame that is left of a bundle only that frame goes on. So no bundle reaches a card.

import "github.com/funet/funet/uspace/arctic"

// injectBundle puts a bundle into the queue for its sender's link, and reports whether all of its
// frames are for terminals. All frames of a bundle have one level.
func (a *Arctic) injectBundle(p *ArcticPort, i uint32, frames [][]byte) bool {
	high := true
	for _, b := range frames {
		h, ok := arctic.Peek(b)
		if !ok || int(h.Route()) >= len(a.ports) {
			return false
		}
		high = high && h.Urgent()
	}
	a.bundled = frames
	a.Bundles++
	all := uint8(1<<len(frames) - 1)
	a.enter(p, i, flit{route: uint32(p.number), words: a.weigh(frames, all), members: all}, high)
	return true
}

// weigh returns how many words a bundle has on a link.
func (a *Arctic) weigh(frames [][]byte, members uint8) (words int32) {
	if a.cfg.Weightless {
		return 0
	}
	bytes := 0
	for k, b := range frames {
		switch {
		case !a.cfg.Bare:
			bytes += len(b)
		case members>>k&1 != 0:
			bytes += max(len(b)-arctic.HeaderSize, arctic.PacketHeaderSize)
		}
	}
	if !a.cfg.Bare {
		bytes += arctic.BundleHeaderSize
	}
	return int32(bytes+3) / 4
}

// spread sends the frames of a bundle on that has come to a router.
func (a *Arctic) spread(c *channel, i uint32) {
	frames, _ := arctic.Bundled(a.bundled[:0], a.pool.frames[i].bytes())
	a.bundled = frames
	f := a.flits[i]
	var ports [arctic.MaxBundled]int32
	for k, b := range frames {
		if f.members>>k&1 != 0 {
			h, _ := arctic.Peek(b)
			a.Hops += uint64(h.Packets())
			ports[k] = a.onward(&f, c.router, int(h.Route()))
		}
	}
	a.flits[i].hops++
	f.hops++
	for rest := f.members; rest != 0; {
		first, group := -1, uint8(0)
		for k := range frames {
			if rest>>k&1 == 0 {
				continue
			}
			if first < 0 {
				first = k
			}
			// a card gets frames one by one
			if k == first || ports[k] == ports[first] && a.out[c.router*a.radix+ports[k]].router != toCard {
				group |= 1 << k
			}
		}
		rest &^= group
		out := &a.out[c.router*a.radix+ports[first]]
		if group == f.members && group != 1<<first { // all of it
			a.want(out, i)
			return
		}
		j := a.copyOf(i, frames, first, group)
		a.flits[i].copies++
		a.want(out, j)
	}
}

// onward returns the port by which a frame of a bundle leaves a router.
func (a *Arctic) onward(f *flit, router int32, to int) int32 {
	if !a.carried {
		return int32(a.top.Next(int(router), to))
	}
	return int32(a.top.Way(int(f.route), to).Bits >> (int(f.hops) * a.shift) & (1<<a.shift - 1))
}

// copyOf makes the copy of a bundle that has a group of its frames, of which one is the first.
func (a *Arctic) copyOf(i uint32, frames [][]byte, first int, group uint8) uint32 {
	f := a.flits[i]
	f.of, f.members, f.copies, f.until = i+1, group, 0, 0
	if group != 1<<first {
		j := a.pool.clone(i)
		f.words = a.weigh(frames, group)
		*a.flit(j) = f
		return j
	}
	b := frames[first]
	j := a.pool.take(len(b))
	one, whole := &a.pool.frames[j], &a.pool.frames[i]
	one.n, one.sent, one.flow = copy(one.data, b), whole.sent, whole.flow
	h, _ := arctic.Peek(b)
	f.members, f.packets, f.words = 0, uint8(h.Packets()), a.words(len(b))
	if f.route = h.Route(); a.carried {
		f.route = a.top.Way(int(a.flits[i].route), int(h.Route())).Bits >> (int(f.hops) * a.shift)
	}
	*a.flit(j) = f
	return j
}

// empties returns the time at which packet i, which leaves until the given time, leaves its buffer
// empty; a time far in the past: copies of the same bundle are still there.
func (a *Arctic) empties(i uint32, until int64) int64 {
	of := a.flits[i].of
	if of == 0 {
		return until
	}
	a.flits[i].of = 0
	f := &a.flits[of-1]
	f.until = max(f.until, until)
	if f.copies--; f.copies > 0 {
		return -Never
	}
	a.pool.give(of - 1)
	return f.until
}
