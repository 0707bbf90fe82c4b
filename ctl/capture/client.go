package capture

// This file asks a daemon for its frames.

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
)

// patience is how long a daemon may take to begin.
const patience = 10 * time.Second

// Follow captures at the socket until the context ends, which is no error, or begin or see returns one. begin is called first, then
// see for each frame, whose bytes are good until it returns, and counts after each batch. Errors besides:
// attach.ErrNoDaemon, attach.ErrLost, ErrMalformed, and those of a refusal.
func Follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error, see func(*Record) error, counts func([]Counts)) error {
	err := follow(ctx, socket, ask, begin, see, counts)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func follow(ctx context.Context, socket string, ask Request, begin func(*Begin) error, see func(*Record) error, counts func([]Counts)) error {
	conn, err := attach.Dial(ctx, socket, patience)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("capturing at %s: %w", socket, attach.ErrNoDaemon)
	}
	if err != nil {
		return fmt.Errorf("capturing: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	message, err := attach.EncodeBody(attach.KindCapture, body)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := attach.Send(conn, message); err != nil {
		return fmt.Errorf("capturing at %s: %w", socket, err)
	}
	buffer := make([]byte, attach.MaxMessage)
	var b Begin
	if body, err = next(conn, buffer, socket); err != nil {
		return err
	}
	if err := json.Unmarshal(body, &b); err != nil || len(b.Interfaces) < 1 || len(b.Interfaces) > MaxInterfaces || b.Snap < 1 || b.Snap > MaxSnap {
		return fmt.Errorf("capturing at %s: %w", socket, ErrMalformed)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := begin(&b); err != nil {
		return err
	}
	for {
		if body, err = next(conn, buffer, socket); err != nil {
			return err
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

// next returns the body of the next answer.
func next(conn *net.UnixConn, buffer []byte, socket string) ([]byte, error) {
	message, _, err := attach.Receive(conn, buffer, 0)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("capturing at %s: %w", socket, attach.ErrLost)
	}
	if err == nil {
		message, err = attach.DecodeBody(message, attach.KindCapture|attach.AnswerBit)
	}
	if err != nil {
		return nil, fmt.Errorf("capturing at %s: %w", socket, err)
	}
	return message, nil
}
