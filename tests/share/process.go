package main

// This file runs the processes of a run: this program again, as another user, on a host of the lab.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/attack"
)

// These are the environment variables of the roles, and the names of the roles.
const (
	roleEnv    = "FUNET_SHARE_ROLE"
	configEnv  = "FUNET_SHARE_CONFIG"
	roleVictim = "victim"
	roleAttack = "attack"
	roleBurner = "burner"
)

// patience bounds the wait for each answer of a process, in addition to the time of its task. It is
// long, as processes are slow beside some attacks.
const patience = time.Minute

// process is a process that plays a role.
type process struct {
	*attack.Process
	did atomic.Int64 // N of its last line "did N"
}

// program returns the path of a copy of this program in memory, through a descriptor. Other users
// may have no access to this program's folder.
var program = sync.OnceValues(func() (path string, err error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	fd, err := unix.MemfdCreate("share", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("making a copy of this program in memory: %w", err)
	}
	copied := os.NewFile(uintptr(fd), "share")
	if _, err := io.Copy(copied, self); err != nil {
		return "", fmt.Errorf("copying this program into memory: %w", err)
	}
	// A file that is open for writing cannot be executed: open it once more, for good.
	readable, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fmt.Sprintf("/proc/self/fd/%d", readable), errors.Join(err, copied.Close())
})

// start starts a process in a role on a host of the lab. With session it gets a session of its own.
func start(l *lab.Lab, host int, name, role string, user uint32, session bool, config any) (*process, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Dir = []string{"share " + name}, "/"
	cmd.Env = []string{roleEnv + "=" + role, configEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Credential: &syscall.Credential{Uid: user, Gid: user}}
	p := &process{}
	p.Process, err = attack.Start(fmt.Sprintf("%s on host %d", name, host), cmd,
		func(c *exec.Cmd) error { return l.Start(host, c) }, p.hear)
	return p, err
}

// hear takes the lines "did N".
func (p *process) hear(line string) bool {
	var n int64
	_, err := fmt.Sscanf(line, "did %d", &n)
	if err == nil {
		p.did.Store(n)
	}
	return err == nil
}

// kill ends the process and waits for its end.
func (p *process) kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Ended
}

// killAll ends processes, and waits for their ends.
func killAll(all []*process) {
	for _, p := range all {
		_ = p.Cmd.Process.Kill()
	}
	for _, p := range all {
		<-p.Ended
	}
}
