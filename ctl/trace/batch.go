package trace

// This file is how records travel from the daemon to the process: JSON, a batch a message.

import (
	"errors"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	// MaxEvery is the largest Every: one packet in MaxEvery is traced.
	MaxEvery = 1_000_000_000
	// BatchRecords is the most records of a batch, at less than 500 bytes.
	BatchRecords = 128
)

// ErrMalformed: what was read is no trace.
var ErrMalformed = errors.New("not a trace; run the same version of FUNet on both sides")

// Request is the JSON that asks for a trace. The first answer is Begin, and those after it are
// batches, until the process sends anything more, or one of the two sides closes the connection.
type Request struct {
	Every int    `json:"every"`         // one packet in Every is traced
	GID   uint16 `json:"gid,omitempty"` // of this group; 0: of all that the user may trace
}

// Begin is the JSON of the first answer.
type Begin struct {
	attach.Info
	Every    int   `json:"every"`
	Clock    int64 `json:"clock_unix_ns"` // when the records' time was 0
	Contexts int   `json:"contexts"`      // that are followed, at the beginning
	// that are not, because somebody else's trace follows them
	Others int `json:"others"`
	Ports  int `json:"direct_ports,omitempty"` // whose packets the card does not see
}

// Batch is the JSON of an answer after the first.
type Batch struct {
	Records []engine.Trace `json:"records"`
	Lost    uint64         `json:"lost"` // records so far, which the process did not take in time
	End     bool           `json:"end,omitempty"`
}
