package daemon_test

// This file tests processes whose group is switched out: they are woken when messages
// come, and the messages that they have sent are not lost when they, or the daemon, end.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// outBy has the two nodes of another group talk until a group is not on the card of a daemon that
// has room for one.
func outBy(t *testing.T, d *running, others []*client, gid uint16) {
	t.Helper()
	until(t, "the group is out", func() bool {
		others[0].send(1, 1)
		others[1].receive()
		for _, x := range d.status(t).Contexts {
			if x.GID == gid && x.Active {
				return false
			}
		}
		return true
	})
}

// echo has a node send a message to node 0 of its group and waits for the answer.
func (k *client) echo(word uint32) {
	k.t.Helper()
	k.send(0, word)
	if from, got := k.receive(); from != 0 || got != word {
		k.t.Fatalf("node %d answered %d, not %d", from, got, word)
	}
}

// Rule: a process that sleeps until the card wakes it is woken for what comes to it, although
// its group has been switched out and in meanwhile; it needs no time of its own after which
// it looks (thesis 4.2).
func TestWaitingProcessIsWoken(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Profile = few(t, 1) })
	daemons := []*running{d}
	_, others := group(t, daemons, 0, 0)
	_, nodes := group(t, daemons, 0, 0)
	waiting, sender := nodes[0], nodes[1]
	answered := make(chan error, 1)
	go func() {
		answered <- waiting.answers(20)
		close(answered)
	}()
	t.Cleanup(func() { // before its memory is unmapped
		for range answered {
		}
	})
	for i := range uint32(20) {
		outBy(t, d, others, waiting.Answer.GID)
		sender.echo(i)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// answers returns the given number of messages to their senders, and sleeps until it is woken when
// there is none, as funi_wait does.
func (k *client) answers(n int) error {
	wait := []unix.PollFd{{Fd: int32(k.FDs[attach.ProcessDescriptor]), Events: unix.POLLIN}}
	for n > 0 {
		if s := k.Iface.Receive(funi.Request); s != nil {
			from, word := s.Source(), s.Payload()[0]
			k.Iface.Release(funi.Request)
			put(k.Iface, from, word)
			k.Wake()
			n--
			continue
		}
		k.Memory.Page.Arm()
		if k.Iface.Waiting() {
			continue
		}
		if ready, err := unix.Poll(wait, int(patience.Milliseconds())); ready == 0 ||
			err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("nobody wakes the process, for which there is a message: %v (%v)", k.Iface.Waiting(), err)
		}
		var count [8]byte
		_, _ = unix.Read(int(wait[0].Fd), count[:])
	}
	return nil
}

// Rule: so is a program in C, which waits without end.
func TestWaitingProgramInCIsWoken(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Profile = few(t, 1) })
	daemons := []*running{d}
	program := filepath.Join(b.dir, "waiting")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../../uspace/funi", "-o",
		program, "testdata/waiting.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	_, others := group(t, daemons, 0, 0)
	gid, token, _ := two(t, daemons, 0, 0)
	sender := dial(t, d.socket)
	if err := sender.attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 64, Token: token}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "FUNET_SOCKET="+d.socket, fmt.Sprintf("FUNET_GID=%d", gid), "FUNET_NODE=0",
		"FUNET_TOKEN="+token.Text())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for i := range uint32(20) {
		sender.echo(i)
		outBy(t, d, others, gid)
	}
}

// Rule: a process that ends its context and says how long what it has sent may take is not
// told that it has arrived before it has: also when its group is out, and has its turn first.
func TestDetachWaitsForItsTurn(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Profile = few(t, 1) })
	daemons := []*running{d}
	_, others := group(t, daemons, 0, 0)
	gid, token, _ := two(t, daemons, 0, 0)
	receiver := dial(t, d.socket) // with room for all, whatever it has given back
	if err := receiver.attach(attach.AttachRequest{GID: gid, Node: 1, Slots: 256, Token: token}); err != nil {
		t.Fatal(err)
	}
	const n = 50
	for range 10 {
		k := dial(t, d.socket)
		if err := k.attach(attach.AttachRequest{GID: gid, Slots: 64, Token: token}); err != nil {
			t.Fatal(err)
		}
		outBy(t, d, others, gid)
		for i := range uint32(n) {
			k.send(1, i)
		}
		answer, _ := k.ask(attach.DetachRequest{Linger: patience / 2}.Encode(), 0)
		if _, err := attach.DecodeBody(answer, attach.KindDetach|attach.AnswerBit); err != nil {
			t.Fatal(err)
		}
		for i := range uint32(n) {
			if from, word := receiver.receive(); from != 0 || word != i {
				t.Fatalf("got %d from %d instead of %d", word, from, i)
			}
		}
		k.Close()
	}
}

// Rule: a daemon that is stopped lets also those have their turn whose group is out, for as
// long as it drains (Config.Drain).
func TestStopDrainsWhoIsOut(t *testing.T) {
	b := newBed(t)
	daemons := []*running{b.start(0, func(c *daemon.Config) { c.Profile, c.Drain = few(t, 1), patience }),
		b.start(1, nil)}
	_, others := group(t, daemons, 0, 0)
	_, nodes := group(t, daemons, 0, 1)
	outBy(t, daemons[0], others, nodes[0].Answer.GID)
	const n = 50
	for i := range uint32(n) {
		nodes[0].send(1, i)
	}
	daemons[0].stop(t)
	for i := range uint32(n) {
		if from, word := nodes[1].receive(); from != 0 || word != i {
			t.Fatalf("got %d from %d instead of %d", word, from, i)
		}
	}
}

// Rule: a process that attaches to a job that has ended hears why, if it shows the job's token; one
// whose context was ended hears it too, in Go and in C (ended.go, funi_fail).
func TestEndOfAJobIsExplained(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	program := filepath.Join(b.dir, "waiting")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../../uspace/funi", "-o",
		program, "testdata/waiting.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	inC := func(gid, node uint16, token attach.Token) (*exec.Cmd, *strings.Builder) {
		cmd, said := exec.Command(program), &strings.Builder{}
		cmd.Env = append(os.Environ(), "FUNET_SOCKET="+d.socket, fmt.Sprintf("FUNET_GID=%d", gid),
			fmt.Sprintf("FUNET_NODE=%d", node), "FUNET_TOKEN="+token.Text())
		cmd.Stderr = said
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd, said
	}
	for _, c := range []struct {
		end  func(owner *client, gid uint16)
		says string
		told bool // the processes that are there
	}{
		{func(_ *client, gid uint16) {
			wantError(t, d.admin(t, fmt.Sprintf(`{"do": "gid-end", "gid": %d}`, gid), nil), nil)
		}, "an administrator ended the group", true},
		{func(owner *client, _ uint16) { owner.Close() }, "who made it has ended it", false},
	} {
		owner, token := dial(t, d.socket), attach.NewToken()
		gid, err := owner.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 0, 0}})
		if err != nil {
			t.Fatal(err)
		}
		member := dial(t, d.socket)
		if err := member.attach(attach.AttachRequest{GID: gid, Token: token}); err != nil {
			t.Fatal(err)
		}
		cmd, said := inC(gid, 1, token)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "the program in C has attached", func() bool { return len(d.status(t).Contexts) == 2 })
		c.end(owner, gid)
		if err := cmd.Wait(); err == nil || strings.Contains(said.String(), c.says) != c.told {
			t.Errorf("the program in C ended with %v and said %q, and the job's end was %q", err, said, c.says)
		}
		member.until("it is told", member.Iface.Gone)
		if err := member.Iface.Err(); strings.Contains(err.Error(), c.says) != c.told {
			t.Errorf("the context ended with %v, and the job's end was %q", err, c.says)
		}
		until(t, "the job has ended", func() bool { return len(d.status(t).Jobs) == 0 })
		err = dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Node: 2, Token: token})
		if !errors.Is(err, attach.ErrGroup) || !strings.Contains(err.Error(), "its job has ended: "+c.says) {
			t.Errorf("who comes too late hears %v, not %q", err, c.says)
		}
		err = dial(t, d.socket).attach(attach.AttachRequest{GID: gid, Node: 2, Token: attach.NewToken()})
		if !errors.Is(err, attach.ErrGroup) || strings.Contains(err.Error(), "ended") {
			t.Errorf("who has no token hears %v", err)
		}
		cmd, said = inC(gid, 2, token)
		if err := cmd.Run(); err == nil || !strings.Contains(said.String(), "its job has ended: "+c.says) {
			t.Errorf("a program in C that comes too late says %q", said)
		}
	}
}
