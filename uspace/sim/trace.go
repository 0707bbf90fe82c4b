package sim

// This file writes records of a run for people to look at: a trace in the JSON format of Chrome and
// Perfetto, and a capture in the pcap format.

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/arctic"
)

// Tracks of a card in a trace: the units of thesis figure 5.1 and 5.2 that did work in
// a step, as its counters tell, and then the card's processes.
const (
	trackRetrieval = iota
	trackDispatch
	trackTransmit
	trackPreprocess
	trackDelivery
	trackProcess
)

var trackNames = [...]string{"retrieval", "dispatch", "transmit", "preprocess", "delivery"}

type tracer struct {
	w     *bufio.Writer
	named map[int]bool // cards whose tracks have names
	flows uint64
	first bool
}

// Trace writes a trace of everything that happens from now on. Every card is a process of the
// trace, with a track for every unit of the card and for every process attached to it. Every frame
// is an arrow from the transmit track of one card to the preprocess track of another. CloseTrace
// ends it.
func (w *World) Trace(out io.Writer) {
	w.trace = &tracer{w: bufio.NewWriterSize(out, 1<<16), named: map[int]bool{}, first: true}
	w.trace.w.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
}

// CloseTrace ends the trace and returns the first error of writing it or a capture.
func (w *World) CloseTrace() error {
	if t := w.trace; t != nil {
		t.w.WriteString("\n]}\n")
		w.trace = nil
		if err := t.w.Flush(); err != nil && w.err == nil {
			w.err = fmt.Errorf("writing trace: %w", err)
		}
	}
	return w.err
}

// event writes one event of the format, without its braces. Times are microseconds.
func (t *tracer) event(ph string, at int64, card, track int, rest string) {
	comma := ","
	if t.first {
		comma, t.first = "", false
	}
	fmt.Fprintf(t.w, "%s\n{\"ph\":%q,\"ts\":%d.%03d,\"pid\":%d,\"tid\":%d%s}", comma, ph, at/1000, at%1000,
		card, track, rest)
}

// name gives a card and its tracks their names, once.
func (t *tracer) name(card int) {
	if t.named[card] {
		return
	}
	t.named[card] = true
	t.event("M", 0, card, 0, fmt.Sprintf(`,"name":"process_name","args":{"name":"card %d"}`, card))
	for i, n := range trackNames {
		t.event("M", 0, card, i, fmt.Sprintf(`,"name":"thread_name","args":{"name":%q}`, n))
	}
}

// step writes what the units of a card did in its last step.
func (t *tracer) step(c *Card) {
	now, b := c.engine.Counters(), &c.before
	t.name(c.number)
	for i, u := range [...]struct {
		what string
		n    uint64
	}{
		{"packets", now.PacketsRetrieved - b.PacketsRetrieved},
		{"frames again", now.Retransmitted - b.Retransmitted},
		{"frames", now.FramesSent - b.FramesSent},
		{"frames", now.FramesReceived - b.FramesReceived},
		{"packets", now.PacketsDelivered - b.PacketsDelivered},
	} {
		if u.n > 0 {
			t.event("X", c.world.now, c.number, i, fmt.Sprintf(`,"dur":%.3f,"name":"%d %s"`,
				float64(c.world.o.StepTime)*float64(c.slow)/1000, u.n, u.what))
		}
	}
	*b = now
}

func (t *tracer) turn(p *Process) {
	c := p.card
	t.name(c.number)
	for i, q := range c.processes {
		if q == p {
			t.event("X", c.world.now, c.number, trackProcess+i, fmt.Sprintf(`,"dur":%.3f,"name":"group %d node %d"`,
				float64(p.pollTime())/1000, p.context.GID(), p.context.Node()))
		}
	}
}

// received ends the arrow of a frame.
func (t *tracer) received(c *Card, f *frame) {
	t.event("f", c.world.now, c.number, trackPreprocess,
		fmt.Sprintf(`,"bp":"e","cat":"frame","name":"frame","id":%d`, f.flow))
}

// sent records a frame that a card has sent: in the hash, the trace and the capture.
func (w *World) sent(f *frame, c *Card) {
	f.sent = w.now
	packets, sum := 0, uint32(0) // of what is no frame
	if h, ok := arctic.Peek(f.bytes()); ok {
		packets, sum = h.Packets(), h.Checksum()
	}
	w.mix(uint64(f.n)<<32 | uint64(sum))
	if t := w.trace; t != nil && c != nil {
		t.flows++
		f.flow = t.flows
		t.event("s", w.now, c.number, trackTransmit,
			fmt.Sprintf(`,"cat":"frame","name":"frame","id":%d,"args":{"bytes":%d,"packets":%d}`, f.flow, f.n, packets))
	}
	if w.capture != nil {
		w.packet(f.bytes())
	}
}

// Capture writes every frame that a card sends from now on to out, in the pcap format
// with nanoseconds (draft-ietf-opsawg-pcap), link type Ethernet.
func (w *World) Capture(out io.Writer) {
	h := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	for _, v := range []uint32{0, 0, 1 << 16, 1} {
		h = binary.LittleEndian.AppendUint32(h, v)
	}
	w.capture = out
	w.write(h)
}

func (w *World) packet(b []byte) {
	r := make([]byte, 0, 16+len(b))
	for _, v := range []uint32{uint32(w.now / 1e9), uint32(w.now % 1e9), uint32(len(b)), uint32(len(b))} {
		r = binary.LittleEndian.AppendUint32(r, v)
	}
	w.write(append(r, b...))
}

func (w *World) write(b []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.capture.Write(b); err != nil {
		w.err = fmt.Errorf("writing capture: %w", err)
	}
}
