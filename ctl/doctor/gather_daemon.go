package doctor

// This file asks the daemon of this host about itself.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// daemonPatience is the most time that the daemon may take to answer.
const daemonPatience = 2 * time.Second

func gatherDaemon(ctx context.Context, socket string, wanted bool) *Daemon {
	d := &Daemon{Socket: socket, ABI: funi.ABI, Wanted: wanted}
	info, err := attach.InquireContext(ctx, socket, daemonPatience)
	if err == nil {
		d.State, d.Info = Answers, info
		return d
	}
	d.Err = err.Error()
	_, there := os.Stat(socket)
	switch {
	case errors.Is(there, fs.ErrPermission), errors.Is(err, unix.EACCES):
		d.State = Forbidden
	case errors.Is(err, attach.ErrVersion):
		d.State = Foreign
	case errors.Is(there, fs.ErrNotExist):
		d.State = NoSocket
	case errors.Is(err, attach.ErrNoDaemon), errors.Is(err, unix.ECONNREFUSED):
		d.State = Deaf
	case errors.Is(err, attach.ErrSilent), errors.Is(err, os.ErrDeadlineExceeded):
		d.State = Silent
	default:
		d.State = Odd
	}
	return d
}

// owns reports whether the daemon answers and uses the interface.
func (d *Daemon) owns(iface string) bool {
	return d != nil && d.State == Answers && slices.Contains(d.Info.Interfaces, iface)
}
