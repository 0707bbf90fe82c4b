package attach_test

// This file tests asking a daemon that is not there; the tests of ctl/daemon and of funet run ask
// those that are.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// TestInquireNobody: where no daemon listens the error says so, and no descriptor of the process
// is closed or left open.
func TestInquireNobody(t *testing.T) {
	descriptors := func() (open []string) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			// but for the folder's own
			if target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil {
				open = append(open, e.Name()+" "+target)
			}
		}
		return open
	}
	// Daemons of tests before may still be closing theirs.
	eventually(t, "the descriptors are those from before", func() bool {
		before := descriptors()
		if _, err := attach.Inquire(filepath.Join(t.TempDir(), "none.sock"), 0); !errors.Is(err, attach.ErrNoDaemon) {
			t.Fatalf("error %v, want ErrNoDaemon", err)
		}
		return slices.Equal(descriptors(), before)
	})
}
