package trace

// This file asks a daemon for records.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	// patience is how long a daemon may take to begin.
	patience = 10 * time.Second
	// respite is how long it may take to send the last records.
	respite = 300 * time.Millisecond
)

// ErrEnough is what see returns when it wants no more.
var ErrEnough = errors.New("enough")

// Follow traces at the socket until the context ends, after which see still gets the records of packets that are under way, or see returns
// ErrEnough: neither is an error. begin is called first. It returns how many records were lost. Errors besides:
// attach.ErrNoDaemon, attach.ErrLost, ErrMalformed, and those of a refusal and of begin and see.
func Follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error, see func(*engine.Trace) error) (lost uint64, err error) {
	conn, err := attach.Dial(ctx, socket, patience)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return 0, fmt.Errorf("tracing at %s: %w", socket, attach.ErrNoDaemon)
	}
	if err != nil {
		return 0, fmt.Errorf("tracing: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if err := send(conn, ask); err != nil {
		return 0, fmt.Errorf("tracing at %s: %w", socket, err)
	}
	stop := func() { // a last word, and a last time
		_ = send(conn, struct{}{})
		_ = conn.SetReadDeadline(time.Now().Add(respite))
	}
	defer context.AfterFunc(ctx, stop)()
	buffer := make([]byte, attach.MaxMessage)
	var b Begin
	if err := next(conn, buffer, &b); err != nil {
		if ctx.Err() != nil {
			return 0, nil
		}
		return 0, fmt.Errorf("tracing at %s: %w", socket, err)
	}
	if b.Every < 1 {
		return 0, fmt.Errorf("tracing at %s: %w", socket, ErrMalformed)
	}
	if ctx.Err() == nil {
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return 0, err
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
		if err := next(conn, buffer, &batch); err != nil {
			if enough || ctx.Err() != nil {
				return lost, nil // it is busy: without the last ones
			}
			return lost, fmt.Errorf("tracing at %s: %w", socket, err)
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

// send sends a request.
func send(conn *net.UnixConn, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	message, err := attach.EncodeBody(attach.KindTrace, body)
	if err != nil {
		return err
	}
	return attach.Send(conn, message)
}

// next reads the next answer.
func next(conn *net.UnixConn, buffer []byte, v any) error {
	message, _, err := attach.Receive(conn, buffer, 0)
	if errors.Is(err, io.EOF) {
		return attach.ErrLost
	}
	if err == nil {
		message, err = attach.DecodeBody(message, attach.KindTrace|attach.AnswerBit)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(message, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
