package attach

// This file asks a daemon which card it has, without attaching to it.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Inquire asks the daemon at the socket ("" stands for DefaultSocket) which card it has.
// The answer may take as long as timeout; 0 stands for DefaultTimeout. Errors are
// ErrNoDaemon, ErrSilent, ErrLost, ErrVersion, and ErrMalformed. Any goroutine may call it.
func Inquire(socket string, timeout time.Duration) (Info, error) {
	return InquireContext(context.Background(), socket, timeout)
}

// InquireContext is Inquire that also ends with a context, and returns its cause.
func InquireContext(ctx context.Context, socket string, timeout time.Duration) (Info, error) {
	i, err := inquire(ctx, socket, timeout)
	if err != nil {
		return i, fmt.Errorf("asking for the card at %s: %w", socket, err)
	}
	return i, nil
}

func inquire(ctx context.Context, socket string, timeout time.Duration) (i Info, err error) {
	c := newClient(ctx, socket, timeout)
	defer c.release()
	if err := c.connect(); err != nil {
		return i, err
	}
	request, err := EncodeBody(KindInfo, nil)
	if err != nil {
		return i, err
	}
	message, _, err := c.ask(request, 0)
	if err != nil {
		return i, err
	}
	body, err := DecodeBody(message, KindInfo|AnswerBit)
	if err == nil {
		if e := json.Unmarshal(body, &i); e != nil {
			err = fmt.Errorf("reading what it says (%w): %w", e, ErrMalformed)
		}
	}
	return i, err
}
