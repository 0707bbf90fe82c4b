package capture

// This file asks a daemon for the frames that its card sends and receives.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/attach"
)

// patience is the most time that a daemon may take to begin.
const patience = 10 * time.Second

// Follow captures at the socket until the context ends, which is no error, or until begin or see
// returns an error. It calls begin first, then see for each frame, and counts after each batch. A
// frame's bytes are valid until see returns. Other errors are attach.ErrNoDaemon, attach.ErrLost,
// ErrMalformed, and those of a refusal.
func Follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error, see func(*Record) error,
	counts func([]Counts)) error {
	err := follow(ctx, socket, ask, begin, see, counts)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error, see func(*Record) error,
	counts func([]Counts)) error {
	failed := func(err error) error { return fmt.Errorf("capturing at %s: %w", socket, err) }
	c, err := attach.Converse(ctx, socket, attach.KindCapture, patience)
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.Ask(ask); err != nil {
		return failed(err)
	}
	body, err := c.Answer()
	if err != nil {
		return failed(err)
	}
	var b Begin
	if err := json.Unmarshal(body, &b); err != nil || len(b.Interfaces) < 1 || len(b.Interfaces) > MaxInterfaces ||
		b.Snap < 1 || b.Snap > MaxSnap {
		return failed(ErrMalformed)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return failed(err)
	}
	if err := begin(&b); err != nil {
		return err
	}
	for {
		if body, err = c.Answer(); err != nil {
			return failed(err)
		}
		n, err := DecodeBatch(body, len(b.Interfaces), see)
		if n != nil {
			counts(n)
		}
		if err != nil {
			return err
		}
	}
}
