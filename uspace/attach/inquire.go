package attach

// This file asks a daemon which card it has, without attaching to it.

import (
	"cmp"
	"context"
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
func InquireContext(ctx context.Context, socket string, timeout time.Duration) (i Info, err error) {
	socket = cmp.Or(socket, DefaultSocket)
	if err = Call(ctx, socket, KindInfo, cmp.Or(timeout, DefaultTimeout), nil, &i); err != nil {
		err = fmt.Errorf("asking for the card at %s: %w", socket, err)
	}
	return i, err
}
