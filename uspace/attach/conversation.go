package attach

// This file has the requests to a daemon of programs without a context: requests of one kind with a
// JSON body, and their answers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conversation is a connection for requests of one kind. One goroutine at a time may ask, and one
// may read answers. Any goroutine may call SetDeadline and Close.
type Conversation struct {
	*net.UnixConn
	kind   Kind
	buffer []byte
}

// Converse connects to the daemon at the socket. Later calls fail with os.ErrDeadlineExceeded when
// the time of patience is over, unless SetDeadline says otherwise. Errors: ErrNoDaemon, the
// context's cause, and those of the kernel.
func Converse(ctx context.Context, socket string, kind Kind, patience time.Duration) (*Conversation, error) {
	conn, err := Dial(ctx, socket, patience)
	if nobodyListens(err) {
		return nil, ErrNoDaemon
	}
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Conversation{UnixConn: conn, kind: kind, buffer: make([]byte, MaxMessage)}, nil
}

// nobodyListens reports whether an error of Dial means that no daemon listens on the socket.
func nobodyListens(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOTSOCK)
}

// Ask sends a request with the body, or without one if body is nil.
func (c *Conversation) Ask(body any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	message, err := EncodeBody(c.kind, text)
	if err != nil {
		return err
	}
	return Send(c.UnixConn, message)
}

// Answer returns the body of the next answer, which is valid until the one after. Errors: ErrLost,
// those of a refusal, and those of the kernel.
func (c *Conversation) Answer() ([]byte, error) {
	message, _, err := Receive(c.UnixConn, c.buffer, 0)
	if errors.Is(err, io.EOF) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	return DecodeBody(message, c.kind|AnswerBit)
}

// Call asks the daemon at the socket once, and decodes the answer's body into answer. It ends with
// the context, and when the time of patience is over (ErrSilent). Errors are those of Converse and
// Answer, and ErrMalformed.
func Call(ctx context.Context, socket string, kind Kind, patience time.Duration, body, answer any) error {
	c, err := Converse(ctx, socket, kind, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	sent := c.Ask(body)
	got, err := c.Answer() // a refusal may be there although sending failed
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, ErrLost) && sent != nil {
		err = sent
	}
	if err != nil {
		return ending(ctx, err)
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("reading the answer (%w): %w", err, ErrMalformed)
	}
	return nil
}

// ending turns an error of a socket into the reason for which a request or a context ends.
func ending(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w (%w)", ErrSilent, err)
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return ErrLost
	}
	return err
}
