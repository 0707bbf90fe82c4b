package daemon

// This file makes the daemon a service of systemd. It reports when it is ready and when it stops
// and, if asked to, that the card's thread runs (sd_notify(3), sd_watchdog_enabled(3)). Without
// systemd it does nothing.

import (
	"context"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// Serve is Run with reports to systemd.
func (d *Daemon) Serve(ctx context.Context) error {
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("reading what systemd's watchdog wants: %w; mend or unset WATCHDOG_USEC and WATCHDOG_PID",
			err)
	}
	ended := make(chan struct{})
	defer close(ended)
	return d.Run(ctx, func() {
		notify("READY=1\nSTATUS=serving " + d.cfg.Socket)
		d.cfg.Logger.Info(fmt.Sprintf("ready: card %d, socket %s", d.cfg.Card, d.cfg.Socket))
		if every > 0 {
			go d.watchdog(every/2, ended)
		}
		go func() {
			select {
			case <-ctx.Done():
			case <-d.quit:
			case <-ended:
			}
			notify("STOPPING=1")
		}()
	})
}

// notify tells systemd. It ignores errors: the daemon goes on without systemd.
func notify(state string) { _, _ = systemd.SdNotify(false, state) }

// watchdog reports the card's thread alive as often as asked, as long as the thread carries out
// commands.
func (d *Daemon) watchdog(every time.Duration, ended <-chan struct{}) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ended:
			return
		}
		if d.loop.do(func() {}) != nil {
			return
		}
		notify("WATCHDOG=1")
	}
}
