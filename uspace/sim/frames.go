package sim

// This file has the memory of frames under way: buffers of two sizes that are used again and again,
// so that a world in motion does not allocate.

// smallFrame is the size of the lesser buffers: most frames are short.
const smallFrame = 256

type frame struct {
	data []byte
	n    int    // bytes of it
	sent int64  // time of sending
	flow uint64 // number in a trace
	to   uint16 // the port that a Switch sends it to
}

func (f *frame) bytes() []byte { return f.data[:f.n] }

// pool has the frames of a network. Frames are named by index: their holders need no pointers.
type pool struct {
	size   int // of a large frame
	frames []frame
	large  []uint32
	small  []uint32
}

// take returns a free frame for n bytes; its content is left over.
func (p *pool) take(n int) uint32 {
	list, size := &p.large, p.size
	if n <= smallFrame {
		list, size = &p.small, smallFrame
	}
	if k := len(*list); k > 0 {
		i := (*list)[k-1]
		*list = (*list)[:k-1]
		return i
	}
	p.frames = append(p.frames, frame{data: make([]byte, size)})
	return uint32(len(p.frames) - 1)
}

func (p *pool) give(i uint32) {
	if len(p.frames[i].data) == smallFrame {
		p.small = append(p.small, i)
	} else {
		p.large = append(p.large, i)
	}
}

func (p *pool) clone(i uint32) uint32 {
	j := p.take(p.frames[i].n)
	data := p.frames[j].data
	p.frames[j] = p.frames[i]
	p.frames[j].data = data
	copy(data, p.frames[i].bytes())
	return j
}

// live returns how many frames are in use.
func (p *pool) live() int { return len(p.frames) - len(p.large) - len(p.small) }

// fifo is a ring of frames that grows up to what its owner lets it hold.
type fifo struct {
	ring  []uint32
	first int
	n     int
}

func (q *fifo) push(i uint32) {
	if q.n == len(q.ring) {
		ring := make([]uint32, max(8, 2*q.n))
		for k := range q.n {
			ring[k] = q.at(k)
		}
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.n)&(len(q.ring)-1)] = i
	q.n++
}

func (q *fifo) at(k int) uint32 { return q.ring[(q.first+k)&(len(q.ring)-1)] }

func (q *fifo) drop(k int) {
	q.first = (q.first + k) & max(len(q.ring)-1, 0)
	q.n -= k
}
