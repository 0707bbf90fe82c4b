package trace

// This file asks a daemon for records of traced packets.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	patience = 10 * time.Second // the most time that a daemon may take to begin
	// respite is the most time that the daemon may take to send the last records.
	respite = 300 * time.Millisecond
)

// ErrEnough ends Follow without an error when see returns it.
var ErrEnough = errors.New("enough")

// Follow traces at the socket until the context ends or see returns ErrEnough; neither is an error.
// It calls begin first, then see for each record. After the context's end, see still gets the
// records of packets that are under way. Follow returns how many records were lost. Other errors
// are attach.ErrNoDaemon, attach.ErrLost, ErrMalformed, and those of refusals, begin and see.
func Follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error,
	see func(*engine.Trace) error) (lost uint64, err error) {
	failed := func(err error) error { return fmt.Errorf("tracing at %s: %w", socket, err) }
	c, err := attach.Converse(ctx, socket, attach.KindTrace, patience)
	if err != nil {
		return 0, failed(err)
	}
	defer c.Close()
	if err := c.Ask(ask); err != nil {
		return 0, failed(err)
	}
	stop := func() { // a last word, and a last time
		_ = c.Ask(struct{}{})
		_ = c.SetReadDeadline(time.Now().Add(respite))
	}
	defer context.AfterFunc(ctx, stop)()
	var b Begin
	if err := next(c, &b); err != nil {
		if ctx.Err() != nil {
			return 0, nil
		}
		return 0, failed(err)
	}
	if b.Every < 1 {
		return 0, failed(ErrMalformed)
	}
	if ctx.Err() == nil {
		if err := c.SetDeadline(time.Time{}); err != nil {
			return 0, failed(err)
		}
	}
	if ctx.Err() != nil { // it ended between the two, and the deadline was taken away
		stop()
	}
	if err := begin(&b); err != nil {
		return 0, err
	}
	for enough := false; ; {
		var batch Batch
		if err := next(c, &batch); err != nil {
			if enough || ctx.Err() != nil {
				return lost, nil // it is busy: without the last ones
			}
			return lost, failed(err)
		}
		lost = batch.Lost
		for i := range batch.Records {
			if enough {
				break
			}
			if err := see(&batch.Records[i]); errors.Is(err, ErrEnough) {
				enough = true
				stop()
			} else if err != nil {
				return lost, err
			}
		}
		if batch.End {
			return lost, nil
		}
	}
}

func next(c *attach.Conversation, v any) error {
	body, err := c.Answer()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
