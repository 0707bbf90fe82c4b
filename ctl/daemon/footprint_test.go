package daemon_test

// This file tests how much memory the daemon takes beside what its users' rules allow.

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// resident returns how many bytes of this process, in which the daemon runs, are in memory
// (proc_pid_status(5)).
func resident(t *testing.T) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// Rule: a user's memory counts for him before it is made and until it is the machine's again.
// However often he has contexts with as many windows as there can be made and ended, the daemon
// takes at most his quota and 64 MiB more; and afterwards the 64 MiB.
func TestMemoryStaysWithinQuota(t *testing.T) {
	long.Test(t)
	const quota, beside = 192 << 20, 64 << 20
	windows := funi.RemoteSizes{KeySlots: funi.MaxRemote, Areas: funi.MaxRemote, Notifications: 1}
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Contexts: 64, Bytes: quota}} })
	token := attach.NewToken()
	owner := dial(t, d.socket)
	gid, err := owner.Job(attach.JobRequest{Token: token, Cards: make([]uint16, 64)})
	if err != nil {
		t.Fatal(err)
	}
	before := resident(t)
	var most int64
	for range 8 {
		var all []*client
		for node := range uint16(64) {
			k := dial(t, d.socket)
			all = append(all, k)
			answer, fds := k.ask(attach.AttachRequest{GID: gid, Node: node, Slots: 16, Remote: windows,
				Token: token}.Encode(), attach.AttachDescriptors)
			attach.CloseDescriptors(fds)
			if _, err := attach.DecodeAttachAnswer(answer); err != nil {
				wantError(t, err, attach.ErrQuota)
				break
			}
		}
		if len(all) < 8 {
			t.Fatalf("%d contexts are the quota", len(all))
		}
		most = max(most, resident(t)-before)
		for _, k := range all {
			k.Close()
		}
		until(t, "the contexts end", func() bool { return len(d.status(t).Contexts) == 0 })
	}
	t.Logf("%d MiB at most, %d MiB before", most>>20, before>>20)
	if most > quota+beside {
		t.Errorf("%d bytes more than before are in memory, where the quota is %d", most, quota)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); resident(t)-before > beside; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d bytes more than before are in memory when all has ended", resident(t)-before)
		}
	}
}
