package launch

// This file finds out whether this process has a controlling terminal. Children inherit it.

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// OnTerminal reports whether this process has a controlling terminal (credentials(7)). Any
// goroutine may call it.
func OnTerminal() (bool, error) {
	self, err := procfs.Self()
	var stat procfs.ProcStat
	if err == nil {
		stat, err = self.Stat()
	}
	if err != nil {
		return false, fmt.Errorf("looking for this process's controlling terminal: %w", err)
	}
	return stat.TTY != 0, nil
}
