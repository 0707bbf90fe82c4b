package attach_test

// This file holds the rules of ends and of bad starts: a daemon that crashes, stops, is
// absent, silent, or of another version.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/fake"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a crash of the daemon is seen at once as an error, in Drive, Wait, requests and
// package am, and a process can attach again when it runs again.
func TestDaemonCrashes(t *testing.T) {
	d := start(t, "")
	driven, waiting, asking, polling := d.open(0), d.open(1), d.open(2), d.open(3)
	e, err := am.New(polling.Interface(), 3, members, polling.Drive, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	waits, polls := make(chan error, 1), make(chan error, 1)
	go func() {
		for {
			if err := waiting.Wait(ctx); err != nil {
				waits <- err
				return
			}
		}
	}()
	e.Bind(ctx)
	go func() { polls <- e.Wait(func() bool { return false }) }()
	eventually(t, "the card's thread sleeps", d.asleep.Load)
	d.crash()
	for driven.Err() == nil && ctx.Err() == nil {
		driven.Drive()
	}
	_, asked := asking.Segment(0x1000, 4096, funi.Source)
	for name, err := range map[string]error{"Drive": driven.Err(), "Wait": await(t, "Wait ends", waits),
		"a request": asked} {
		if !errors.Is(err, attach.ErrLost) || !errors.Is(err, funi.ErrDetached) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := await(t, "package am ends", polls); !errors.Is(err, funi.ErrDetached) ||
		!errors.Is(polling.Err(), attach.ErrLost) {
		t.Errorf("package am: %v, %v", err, polling.Err())
	}
	for name, err := range map[string]error{
		"Unregister": asking.Unregister(0x1000), "Close": driven.Close(timeout),
		"Close of another": asking.Close(timeout),
	} {
		if !errors.Is(err, attach.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := attach.Open(d.config(0)); !errors.Is(err, attach.ErrNoDaemon) {
		t.Errorf("attaching to nobody: %v", err)
	}
	again := start(t, d.path)
	if err := again.open(0).Close(timeout); err != nil {
		t.Errorf("attaching again: %v", err)
	}
}

// Rule: a program whose handler waits for room ends, too, when the daemon does.
func TestHandlersEndWithTheDaemon(t *testing.T) {
	d := start(t, "")
	a, b := d.open(0), d.open(1)
	e, err := am.New(a.Interface(), 0, 2, a.Drive, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.Bind(within(t))
	var replied error
	ran := make(chan struct{})
	if err := e.Handle(9, func(m *am.Message) {
		close(ran)
		for replied == nil {
			replied = m.Reply(9, 1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	eb, err := am.New(b.Interface(), 1, 2, b.Drive, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := eb.Request(0, 9); err != nil {
		t.Fatal(err)
	}
	go func() { <-ran; d.crash() }()
	if err := e.Wait(func() bool { return false }); !errors.Is(err, funi.ErrDetached) ||
		!errors.Is(replied, funi.ErrDetached) {
		t.Errorf("the program ended with %v, its handler with %v", err, replied)
	}
}

// Rule: a crash of the daemon ends a Close that lingers for an hour, and the daemon does not wait
// for the hour either.
func TestCrashEndsALinger(t *testing.T) {
	d := start(t, "")
	c := d.open(0)
	held, let := make(chan struct{}), make(chan struct{})
	go d.do(func() { close(held); <-let })
	await(t, "the card's thread is held", held)
	crashed, closed := make(chan struct{}), make(chan error, 1)
	go func() { d.crash(); close(crashed) }()
	eventually(t, "the crash is the next that the card's thread does", func() bool { return len(d.mailbox) == 1 })
	go func() { closed <- c.Close(time.Hour) }()
	eventually(t, "the daemon has the request", func() bool { return len(d.mailbox) == 2 })
	close(let)
	await(t, "the daemon ends, whose client lingers", crashed)
	if err := await(t, "Close ends, whose daemon is gone", closed); !errors.Is(err, attach.ErrLost) {
		t.Errorf("Close: %v", err)
	}
}

// Rule: a daemon that ends a context says so; the program sees it at once.
func TestDaemonEndsTheContext(t *testing.T) {
	d := start(t, "")
	c := d.open(0)
	ended := make(chan error, 1)
	ctx := within(t)
	go func() {
		for {
			if err := c.Wait(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	d.evict()
	if err := await(t, "Wait ends", ended); !errors.Is(err, funi.ErrDetached) || errors.Is(err, attach.ErrLost) ||
		!c.Interface().Gone() {
		t.Errorf("Wait: %v", err)
	}
	if err := c.Close(timeout); !errors.Is(err, funi.ErrDetached) {
		t.Errorf("Close: %v", err)
	}
}

// Rule: what the daemon refuses is an error with its reason, and leaves nothing behind.
func TestOpenIsRefused(t *testing.T) {
	d := start(t, "")
	d.open(1)
	before := open(t)
	for name, c := range map[string]struct {
		change func(*attach.Config)
		want   error
	}{
		"another's group":   {func(c *attach.Config) { c.GID = 6 }, attach.ErrGroup},
		"a wrong token":     {func(c *attach.Config) { c.Token[31]++ }, attach.ErrToken},
		"no such node":      {func(c *attach.Config) { c.Node = members }, attach.ErrNode},
		"a node in use":     {func(c *attach.Config) { c.Node = 1 }, attach.ErrTaken},
		"3 slots":           {func(c *attach.Config) { c.Slots = 3 }, funi.ErrSlots},
		"negative slots":    {func(c *attach.Config) { c.Slots = -1 }, attach.ErrSlots},
		"too many slots":    {func(c *attach.Config) { c.Slots = 1 << 33 }, attach.ErrSlots},
		"no such socket":    {func(c *attach.Config) { c.Socket = "/nowhere/s" }, attach.ErrNoDaemon},
		"not a socket":      {func(c *attach.Config) { c.Socket = "/dev/null" }, attach.ErrNoDaemon},
		"too long a socket": {func(c *attach.Config) { c.Socket = strings.Repeat("s", 300) }, unix.ENAMETOOLONG},
	} {
		cfg := d.config(0)
		c.change(&cfg)
		if _, err := attach.Open(cfg); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), cfg.Socket) {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, "there are no more descriptors than before", func() bool { return open(t) <= before })
}

// Rule: a later life of a node waits until the daemon has noticed the end of the one before it; the
// end of its context ends that, too. A first life does not wait (TestOpenIsRefused).
func TestLaterLifeWaitsForItsPlace(t *testing.T) {
	d := start(t, "")
	first := d.open(1)
	cfg := d.config(1)
	cfg.Life = 1
	opened := make(chan error, 1)
	attempt := func(cfg attach.Config) {
		c, err := attach.Open(cfg)
		if err == nil {
			err = c.Close(timeout)
		}
		opened <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	bound := cfg
	bound.Context = ctx
	go attempt(bound)
	eventually(t, "it has tried twice", func() bool { return d.taken.Load() >= 2 })
	cancel()
	if err := await(t, "Open ends with its context", opened); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	tried := d.taken.Load()
	go attempt(cfg)
	eventually(t, "it has tried twice", func() bool { return d.taken.Load() >= tried+2 })
	if err := first.Close(timeout); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "the place is free", opened); err != nil {
		t.Errorf("Open: %v", err)
	}
}

// fakeDaemon is the configuration for a daemon that answers the first message of each connection as
// the test says.
func fakeDaemon(t *testing.T, answer func(c *net.UnixConn, request []byte)) attach.Config {
	t.Helper()
	return attach.Config{Socket: fake.Daemon(t, t.TempDir(), answer), GID: gid, Token: token, Timeout: timeout}
}

// badAnswer is an answer to an attach request that no daemon gives, or a refusal.
type badAnswer struct {
	answer []byte
	fds    []int
	want   attach.Status // 0: attach.ErrMemory
}

func badAnswers(t *testing.T) map[string]badAnswer {
	good := attach.AttachAnswer{ABI: funi.ABI, GID: gid, Nodes: 1, Slots: 64, Memory: 4096 + 6*64*128}
	memory := func(n uint64) int {
		fd, err := makeMemory("test", n)
		if err != nil {
			t.Error(err)
		}
		return fd
	}
	unsealed, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(unsealed) })
	if err := unix.Ftruncate(unsealed, int64(good.Memory)); err != nil {
		t.Fatal(err)
	}
	small, whole, page, event := memory(4096), memory(good.Memory), memory(4096), eventfd(t)
	t.Cleanup(func() { attach.CloseDescriptors([]int{small, whole, page, event}) })
	later := good.Encode()
	later[4] = 2
	r := good
	r.ABI = 2
	return map[string]badAnswer{
		"no descriptors":       {good.Encode(), nil, 0},
		"3 descriptors":        {good.Encode(), []int{whole, page, event}, 0},
		"5 descriptors":        {good.Encode(), []int{whole, page, event, event, event}, attach.ErrMalformed},
		"small memory":         {good.Encode(), []int{small, page, event, event}, 0},
		"unsealed memory":      {good.Encode(), []int{unsealed, page, event, event}, 0},
		"no memory":            {good.Encode(), []int{event, page, event, event}, 0},
		"large doorbells":      {good.Encode(), []int{whole, whole, event, event}, 0},
		"a page of no version": {good.Encode(), []int{whole, page, event, event}, attach.ErrVersion},
		"another ABI":          {r.Encode(), []int{whole, page, event, event}, attach.ErrVersion},
		"another protocol":     {later, nil, attach.ErrVersion},
		"an answer to something": {attach.JobAnswer{GID: 1}.Encode(), []int{whole, page, event, event},
			attach.ErrMalformed},
		"rubbish": {bytes.Repeat([]byte{7}, 99), nil, attach.ErrMalformed},
		"a refusal": {attach.EncodeRefusal(attach.KindAttach, attach.ErrQuota), []int{whole},
			attach.ErrQuota},
		"a later refusal": {attach.EncodeRefusal(attach.KindAttach, attach.Status(999)), nil,
			attach.Status(999)},
	}
}

// Rule: a client believes nothing that would hurt it: memory that is smaller than it was
// said to be, or could become so, descriptors too few or too many, an answer to something
// else, or of another version.
func TestDaemonIsNotOne(t *testing.T) {
	for name, c := range badAnswers(t) {
		want := error(c.want)
		if c.want == 0 {
			want = attach.ErrMemory
		}
		cfg := fakeDaemon(t, func(conn *net.UnixConn, _ []byte) { _ = attach.Send(conn, c.answer, c.fds...) })
		before, maps := open(t), mappings(t)
		if _, err := attach.Open(cfg); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		// the fake closes, too
		eventually(t, name+": there are no more descriptors than before", func() bool { return open(t) <= before })
		if m := mappings(t); m != maps {
			t.Errorf("%s: %d mappings became %d", name, maps, m)
		}
	}
	closes := fakeDaemon(t, func(*net.UnixConn, []byte) {})
	if _, err := attach.Open(closes); !errors.Is(err, attach.ErrLost) {
		t.Errorf("a daemon that closes the connection: %v", err)
	}
	release := make(chan struct{})
	silent := fakeDaemon(t, func(*net.UnixConn, []byte) { <-release })
	silent.Timeout = 20 * time.Millisecond
	_, err := attach.Open(silent)
	close(release)
	if !errors.Is(err, attach.ErrSilent) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a daemon that does not answer: %v", err)
	}
	good := attach.AttachAnswer{ABI: funi.ABI, GID: gid, Nodes: 1, Slots: 64, Memory: 4096 + 6*64*128}
	whole, err := makeMemory("test", good.Memory)
	if err != nil {
		t.Fatal(err)
	}
	page, err := makeMemory("test", funi.DoorbellsSize)
	if err != nil {
		t.Fatal(err)
	}
	event := eventfd(t)
	defer attach.CloseDescriptors([]int{whole, page, event})
	// attaches, and never starts the queues
	halts := fakeDaemon(t, func(conn *net.UnixConn, _ []byte) {
		b, err := attach.MapMemory(whole, good.Memory)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { attach.Unmap(b) }()
		bells, err := attach.MapMemory(page, 4096)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { attach.Unmap(bells) }()
		m, err := funi.SharedRemoteMemory(b, bells, funi.RemoteSizes{})
		if err != nil {
			t.Error(err)
			return
		}
		funi.NewCard(m)
		_ = attach.Send(conn, good.Encode(), whole, page, event, event)
		if _, _, err := attach.Receive(conn, make([]byte, attach.MaxMessage), 0); err != io.EOF {
			t.Error(err)
		}
	})
	// its answer comes before that, also from a machine that is busy
	halts.Timeout = 3 * time.Second
	if _, err := attach.Open(halts); !errors.Is(err, attach.ErrSilent) {
		t.Errorf("a daemon that never starts the queues: %v", err)
	}
}

// Rule: memory is made sealed: nobody can change its size, or take the seals off.
func TestMemoryIsSealed(t *testing.T) {
	fd, err := makeMemory("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, n := range []int64{0, 4096, 8191, 8193, 1 << 30} {
		if err := unix.Ftruncate(fd, n); !errors.Is(err, unix.EPERM) {
			t.Errorf("changing the size to %d: %v", n, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("another seal: %v", err)
	}
	for _, n := range []uint64{0, 4096, 8193, 1 << 63, 1<<64 - 1} {
		if _, err := attach.MapMemory(fd, n); !errors.Is(err, attach.ErrMemory) {
			t.Errorf("mapping %d bytes: %v", n, err)
		}
	}
	for _, n := range []uint64{0, 1 << 63} {
		if _, err := makeMemory("test", n); !errors.Is(err, unix.EINVAL) {
			t.Errorf("making %d bytes: %v", n, err)
		}
	}
}

// Rule: a client that is told to spin never sleeps in Drive, and sees the end of the daemon.
func TestSpin(t *testing.T) {
	d := start(t, "")
	cfg := d.config(0)
	cfg.Spin = true
	c, err := attach.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(0)
	for range 20_000 {
		c.Drive()
	}
	var armed bool
	d.do(func() { armed = d.served[0].memory.Page[wakeWord] != 0 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for err = c.Wait(ctx); err == nil; err = c.Wait(ctx) {
	}
	if armed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it armed the card: %v; Wait: %v", armed, err)
	}
	d.crash()
	for end := time.Now().Add(timeout); c.Err() == nil && time.Now().Before(end); {
		c.Drive()
	}
	if !errors.Is(c.Err(), attach.ErrLost) {
		t.Errorf("after a crash: %v", c.Err())
	}
}
