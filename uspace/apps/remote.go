package apps

// This file is remote: calls of some bytes and answers of as many, between nodes 0 and 1.

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/uspace/am"
)

// remoteHandler is the handler number of remote.
const remoteHandler = 0

// RemoteOptions are the same on all nodes.
type RemoteOptions struct {
	Bytes  int // of each call and of its answer, 4 to am.MaxCall
	Calls  int // measured
	WarmUp int // before that, not measured

}

// Remote runs remote. On node 0 it returns the histogram of the times of the calls in nanoseconds; the answer of each
// was checked. On other nodes the histogram is nil. Clock returns nanoseconds.
func Remote(e *am.Endpoint, clock func() int64, o RemoteOptions) (*hdrhistogram.Histogram, error) {
	if o.Bytes < 4 || o.Bytes > am.MaxCall || o.Calls < 1 || e.Nodes() < 2 {
		return nil, fmt.Errorf("making %d calls of %d bytes between nodes 0 and 1 of %d: use at least 1 call, 4 to %d bytes and 2 nodes", o.Calls, o.Bytes, e.Nodes(), am.MaxCall)
	}
	if err := e.HandleCall(remoteHandler, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil }); err != nil {
		return nil, err
	}
	if err := e.Barrier(); err != nil {
		return nil, err
	}
	if e.Node() != 0 {
		return nil, e.Barrier() // in which it answers
	}
	h := hdrhistogram.New(1, longest, 3)
	request, answer := make([]byte, o.Bytes), make([]byte, 0, o.Bytes)
	for i := range request {
		request[i] = byte(i)
	}
	begin, err := clock(), error(nil)
	for i := range o.WarmUp + o.Calls {
		binary.LittleEndian.PutUint32(request, uint32(i))
		if answer, err = e.Call(answer[:0], 1, remoteHandler, request); err != nil {
			return nil, err
		}
		end := clock()
		if !bytes.Equal(answer, request) {
			return nil, fmt.Errorf("%w: call %d brought back %x", ErrVerify, i, answer)
		}
		if i >= o.WarmUp {
			if err := h.RecordValue(end - begin); err != nil {
				return nil, fmt.Errorf("recording call %d: %w", i, err)
			}
		}
		begin = end
	}
	return h, e.Barrier()
}
