package capture

// This file defines how records travel from the daemon to the process: in batches, each the body of
// a message. Numbers are little-endian.
//
//	batch   interfaces (4)  then for each: seen (8)  lost (8)
//	        then records up to the end
//	record  time (8)  length (4)  kept (4)  interface (1)  outcome (1) reason (1) direct (1) GID
//	                                                       (2) node (2) kept bytes
//
// A frame of a direct port has direct = 1, a bpf.Verdict as its outcome, and the GID and node of
// the port that sent it. For other frames direct is 0.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	recordHeader  = 24
	batchHeader   = 4
	countsSize    = 16
	MaxInterfaces = 64                                    // the most interfaces of a capture
	BatchSize     = attach.MaxMessage - attach.HeaderSize // the longest batch in bytes
	// MaxSnap is the most bytes kept of a frame: every batch has room for one such frame.
	MaxSnap = BatchSize - batchHeader - MaxInterfaces*countsSize - recordHeader
)

// ErrMalformed reports bytes from the daemon that are not a batch.
var ErrMalformed = errors.New("not a batch of captured frames; run the same version of FUNet on both sides")

// Request is the JSON that asks for a capture. The first answer is Begin. Batches follow until one
// of the two sides closes the connection.
type Request struct {
	Snap int `json:"snap_bytes"` // of each frame; 0: all its bytes
}

// Begin is the JSON of the first answer.
type Begin struct {
	attach.Info
	Snap int `json:"snap_bytes"` // of each frame
	// direct ports whose frames are not captured, because the release before made them
	Ports int `json:"direct_ports,omitempty"`
}

// Record is a captured frame.
type Record struct {
	Time      int64 // nanoseconds since 1970
	Interface int
	Fate      engine.Fate
	Length    int // bytes of the frame
	Data      []byte
	// Direct marks a frame that the switch of direct ports has seen: it has a Verdict and no Fate.
	// Unless it came from another host, GID and Node name the port that sent it.
	Direct    bool
	Verdict   bpf.Verdict
	GID, Node uint16
}

// Counts are the counters of one interface since the capture began.
type Counts struct{ Seen, Lost uint64 }

func encodeHeader(b *[recordHeader]byte, r *Record) {
	binary.LittleEndian.PutUint64(b[0:], uint64(r.Time))
	binary.LittleEndian.PutUint32(b[8:], uint32(r.Length))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(r.Data)))
	b[16], b[17], b[18], b[19] = byte(r.Interface), byte(r.Fate.Outcome), byte(r.Fate.Reason), 0
	if r.Direct {
		b[17], b[19] = byte(r.Verdict), 1
	}
	binary.LittleEndian.PutUint16(b[20:], r.GID)
	binary.LittleEndian.PutUint16(b[22:], r.Node)
}

func headerKept(b *[recordHeader]byte) int { return int(binary.LittleEndian.Uint32(b[12:])) }

func (r *Ring) appendCounts(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.counts)))
	for i := range r.counts {
		b = binary.LittleEndian.AppendUint64(b, r.counts[i].seen.Load())
		b = binary.LittleEndian.AppendUint64(b, r.counts[i].lost.Load())
	}
	return b
}

// DecodeBatch calls see for each record of a batch until one call fails, and returns the counts of
// the capture's interfaces. Data aliases b. b may be any bytes.
func DecodeBatch(b []byte, interfaces int, see func(*Record) error) ([]Counts, error) {
	if len(b) < batchHeader+interfaces*countsSize || int64(binary.LittleEndian.Uint32(b)) != int64(interfaces) {
		return nil, fmt.Errorf("reading %d bytes: %w", len(b), ErrMalformed)
	}
	b = b[batchHeader:]
	counts := make([]Counts, interfaces)
	for i := range counts {
		counts[i] = Counts{Seen: binary.LittleEndian.Uint64(b), Lost: binary.LittleEndian.Uint64(b[8:])}
		b = b[countsSize:]
	}
	for len(b) > 0 {
		if len(b) < recordHeader {
			return nil, fmt.Errorf("reading a record of %d bytes: %w", len(b), ErrMalformed)
		}
		length, kept := int64(binary.LittleEndian.Uint32(b[8:])), int64(binary.LittleEndian.Uint32(b[12:]))
		outcomes := [...]byte{byte(engine.Outcomes), byte(bpf.Verdicts)}
		if kept > length || kept > int64(len(b)-recordHeader) || int(b[16]) >= interfaces ||
			int(b[19]) >= len(outcomes) || b[17] >= outcomes[b[19]] {
			return nil, fmt.Errorf("reading a record of %d of %d bytes: %w", kept, length, ErrMalformed)
		}
		r := Record{Time: int64(binary.LittleEndian.Uint64(b)), Length: int(length), Interface: int(b[16]),
			Data:   b[recordHeader : recordHeader+kept],
			Direct: b[19] == 1, GID: binary.LittleEndian.Uint16(b[20:]), Node: binary.LittleEndian.Uint16(b[22:])}
		if r.Direct {
			r.Verdict = bpf.Verdict(b[17])
		} else {
			r.Fate = engine.Fate{Outcome: engine.Outcome(b[17]), Reason: arctic.Reason(b[18])}
		}
		if err := see(&r); err != nil {
			return counts, err
		}
		b = b[recordHeader+kept:]
	}
	return counts, nil
}
