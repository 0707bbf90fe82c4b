package keyfile

// This file keeps keys out of core dumps.

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide has the kernel make no core dump of this process any more, and let no other process of its
// user read its memory. Both hold for good, because a key stays in memory. Forms of it that only
// the standard library knows stay there, too, so no single pages could be left out (MADV_DONTDUMP).
// A limit of 0 bytes would not do, because the kernel does not apply it to dumps that it pipes to a
// program (core(5)). Afterwards the files below /proc/PID are root's; the process itself may still
// open its own (prctl(2), PR_SET_DUMPABLE; proc_pid(5)). Programs that it executes are as others.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping keys out of core dumps: %w", err)
	}
	return nil
}
