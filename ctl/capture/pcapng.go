package capture

// This file writes pcapng files (draft-ietf-opsawg-pcapng). The library writes the section, the
// interfaces and their statistics. The packets are written here, because the library lacks two of
// their options: direction and comment.

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/funet/funet/uspace/engine"
)

// The parts of pcapng that are needed here.
const (
	packetBlock  = 6
	optComment   = 1
	optFlags     = 2
	inbound      = 1
	outbound     = 2
	errorOfFrame = 1 << 24 // CRC error
)

// Writer writes a capture as pcapng. One goroutine may call its methods.
type Writer struct {
	to      io.Writer
	ng      *pcapgo.NgWriter
	block   []byte
	begin   time.Time
	Written int64 // the number of bytes written, in whole blocks
}

// counter counts the bytes that the library writes.
type counter struct{ w *Writer }

func (c counter) Write(b []byte) (int, error) {
	n, err := c.w.to.Write(b)
	if err == nil {
		c.w.Written += int64(n)
	}
	return n, err
}

// NewWriter begins a file. It writes only whole blocks.
func NewWriter(to io.Writer, begin *Begin, now time.Time) (*Writer, error) {
	w := &Writer{to: to, begin: now}
	ifc := func(i int) pcapgo.NgInterface {
		return pcapgo.NgInterface{Name: begin.Interfaces[i], LinkType: layers.LinkTypeEthernet, OS: runtime.GOOS,
			Description: fmt.Sprintf("card %d of %s, %s, %s", begin.Card, begin.Host, begin.XDPMode, begin.BindMode),
			SnapLength:  uint32(begin.Snap)}
	}
	var err error
	options := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS,
		Application: "funet capture"}}
	if w.ng, err = pcapgo.NewNgWriterInterface(counter{w}, ifc(0), options); err != nil {
		return nil, err
	}
	for i := 1; i < len(begin.Interfaces); i++ {
		if _, err := w.ng.AddInterface(ifc(i)); err != nil {
			return nil, err
		}
	}
	return w, w.ng.Flush()
}

// Comment returns the fate of a frame as its comment in the file; "" if it was sent or accepted.
func Comment(r *Record) string {
	if r.Direct {
		return directComment(r)
	}
	f := r.Fate
	switch f.Outcome {
	case engine.Sent, engine.Accepted:
		return ""
	case engine.Rejected:
		return "rejected: " + f.Reason.String()
	}
	return "dropped: " + f.Outcome.String()
}

func directComment(r *Record) string {
	why := r.Verdict.Dropped()
	switch {
	case r.Verdict.Local():
		return "to a port of this host"
	case why == "":
		return ""
	case r.Verdict.Arrived():
		return "dropped: " + why
	}
	return fmt.Sprintf("dropped at the port of node %d of job %d: %s", r.Node, r.GID, why)
}

// flags returns the flags of a frame: its direction, and whether it was damaged.
func flags(r *Record) uint32 {
	switch {
	case r.Direct && !r.Verdict.Arrived(), !r.Direct && r.Fate.Outcome == engine.Sent:
		return outbound
	case r.Fate.Outcome == engine.BadChecksum:
		return inbound | errorOfFrame
	}
	return inbound
}

// Write writes a frame.
func (w *Writer) Write(r *Record) error {
	b := binary.LittleEndian.AppendUint32(w.block[:0], packetBlock)
	b = binary.LittleEndian.AppendUint32(b, 0) // the length, below
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Interface))
	b = binary.LittleEndian.AppendUint32(b, uint32(uint64(r.Time)>>32))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Time))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Length))
	b = pad(append(b, r.Data...))
	b = binary.LittleEndian.AppendUint16(b, optFlags)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = binary.LittleEndian.AppendUint32(b, flags(r))
	if c := Comment(r); c != "" {
		b = binary.LittleEndian.AppendUint16(b, optComment)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(c)))
		b = pad(append(b, c...))
	}
	b = append(b, 0, 0, 0, 0) // the end of the options
	size := uint32(len(b) + 4)
	binary.LittleEndian.PutUint32(b[4:], size)
	w.block = binary.LittleEndian.AppendUint32(b, size)
	if _, err := w.to.Write(w.block); err != nil {
		return err
	}
	w.Written += int64(size)
	return nil
}

// pad fills up to a multiple of four bytes.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// Close writes the statistics of the interfaces.
func (w *Writer) Close(counts []Counts, now time.Time) error {
	for i, c := range counts {
		err := w.ng.WriteInterfaceStats(i, pcapgo.NgInterfaceStatistics{LastUpdate: now, StartTime: w.begin,
			EndTime: now, PacketsReceived: c.Seen, PacketsDropped: c.Lost})
		if err != nil {
			return err
		}
	}
	return w.ng.Flush()
}
