package trace

// This file defines how records travel from the daemon to the process: JSON, a batch a message.

import (
	"errors"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	MaxEvery     = 1_000_000_000 // the largest value of Every: one packet in MaxEvery is traced
	BatchRecords = 128           // the most records of a batch. A record has less than 500 bytes.
)

// ErrMalformed reports data that is not a trace, or traces that cannot be merged.
var ErrMalformed = errors.New("not a trace; run the same version of FUNet on both sides")

// Request is the JSON that asks for a trace. The first answer is Begin. Batches follow until the
// process sends anything more, or one of the two sides closes the connection.
type Request struct {
	Every int    `json:"every"`         // one packet in Every is traced
	GID   uint16 `json:"gid,omitempty"` // of this group; 0: of all groups that the user may trace
}

// Begin is the JSON of the first answer.
type Begin struct {
	attach.Info
	Every    int   `json:"every"`
	Clock    int64 `json:"clock_unix_ns"` // Unix time at which the records' time was 0
	Contexts int   `json:"contexts"`      // contexts traced at the beginning
	// contexts not traced, because another trace follows them
	Others int `json:"others"`
	Ports  int `json:"direct_ports,omitempty"` // direct ports, whose packets the card does not see
}

// Batch is the JSON of an answer after the first.
type Batch struct {
	Records []engine.Trace `json:"records"`
	Lost    uint64         `json:"lost"` // records lost so far because the process was slow
	End     bool           `json:"end,omitempty"`
}
