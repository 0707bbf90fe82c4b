package keyfile

// This file keeps keys out of core dumps.

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide tells the kernel to make no core dump of this process any more, and to let no other process
// of its user read its memory. Both hold for good, because a key stays in memory. So do forms of it
// that only the standard library knows, so excluding single pages (MADV_DONTDUMP) would not do. A
// limit of 0 bytes would not do either, because the kernel does not apply it to dumps that it pipes
// to a program (core(5)). Afterwards the files below /proc/PID are root's; the process itself may
// still open its own (prctl(2), PR_SET_DUMPABLE; proc_pid(5)). Programs that it executes are not
// affected.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping keys out of core dumps: %w", err)
	}
	return nil
}
