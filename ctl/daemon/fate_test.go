package daemon_test

// This file tests what processes of direct jobs hear of each other's ends (fate.go), between real
// processes on two hosts. Timeouts are so long that a test which waits for one fails, or so short
// that one who does not wait long enough fails.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/xdp"
)

// serve is the role of a process that answers calls.
func (r *role) serve(token attach.Token) {
	e, err := funet.Open(context.Background(),
		funet.Options{Attach: &attach.Config{Socket: r.Socket, GID: r.GID, Node: r.Node, Token: token,
			Life: int(r.To)}})
	if err == nil {
		err = e.Serve(1, func(m *funet.Message) ([]byte, error) {
			return append(bytes.Clone(m.Bytes), byte(r.Node)), nil
		})
	}
	if err != nil {
		alone{}.Fatal(err)
	}
	if r.Heirs {
		r.fork()
	}
	fmt.Println("ready")
	if err := e.Run(context.Background()); err != nil {
		alone{}.Fatal(err)
	}
}

// fork has two children, which live until the test program ends: one with another program, and one
// that is a copy of this.
func (r *role) fork() {
	if err := exec.Command("tail", "-f", "--pid", strconv.Itoa(os.Getppid()), "/dev/null").Start(); err != nil {
		alone{}.Fatal(err)
	}
	test := os.Getppid()
	nap := unix.NsecToTimespec(int64(10 * time.Millisecond))
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		alone{}.Fatal(errno)
	}
	for pid == 0 { // only system calls
		unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&nap)), 0, 0)
		if _, _, errno = unix.RawSyscall(unix.SYS_KILL, uintptr(test), 0, 0); errno == unix.ESRCH {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// mortals are a job of direct ports: node 0 is in the test, the others are processes.
type mortals struct {
	*bed
	ctx     context.Context
	cards   []uint16
	daemons []*running
	connect []func() *running // starts a host's daemon again
	gid     uint16
	token   attach.Token
	owners  []*client
	first   *funet.Endpoint
}

// mortal starts daemons with timeouts, and a job of nodes on their cards.
func (b *bed) mortal(peer, connect time.Duration, hosts int, cards ...uint16) *mortals {
	b.t.Helper()
	m := &mortals{bed: b, cards: cards}
	for host := range hosts {
		helper := b.helper(host)
		again := func() *running {
			return b.start(host, func(cfg *daemon.Config) {
				cfg.PeerTimeout, cfg.ConnectTimeout = peer, connect
				cfg.Attach, cfg.Carriage, cfg.Ports = xdp.AttachNative, config.DirectCarriage, helper()
				if b.tune != nil {
					b.tune(cfg)
				}
			})
		}
		m.connect, m.daemons = append(m.connect, again), append(m.daemons, again())
	}
	m.gid, m.token, m.owners = directJob(b.t, m.daemons[:2], cards...)
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*patience)
	b.t.Cleanup(cancel)
	m.ctx = ctx
	e, err := funet.Open(ctx, funet.Options{Remote: windows,
		Attach: &attach.Config{Socket: m.daemons[0].socket, GID: m.gid, Token: m.token}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		// what is for the dead is left
		end, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = e.Close(end)
	})
	m.first = e
	return m
}

// node starts the process of a node, in a life.
func (m *mortals) node(node, life uint16) *child {
	m.t.Helper()
	return m.run(int(m.cards[node]), role{Do: "serve", Socket: m.daemons[m.cards[node]].socket, GID: m.gid, Node: node,
		To: life, Token: m.token.Text()})
}

// call calls a node once.
func (m *mortals) call(node int) error {
	got, err := m.first.Call(m.ctx, node, 1, []byte("ask"))
	if err == nil && !bytes.Equal(got, append([]byte("ask"), byte(node))) {
		m.t.Errorf("node %d answers %q", node, got)
	}
	return err
}

// answers expects that calls of a node are answered.
func (m *mortals) answers(nodes ...int) {
	m.t.Helper()
	for _, node := range nodes {
		if err := m.call(node); err != nil {
			m.t.Fatalf("calling node %d: %v", node, err)
		}
	}
}

// answersAgain waits until a node is known to be there.
func (m *mortals) answersAgain(node int) {
	m.t.Helper()
	var u *am.Undelivered
	for err := m.call(node); err != nil; err = m.call(node) {
		if !errors.As(err, &u) || u.Reason != arctic.ReasonDeparted {
			m.t.Fatalf("calling node %d, which is there again: %v", node, err)
		}
	}
}

// gone expects that a call of a node fails because the node has departed.
func (m *mortals) gone(node int) {
	m.t.Helper()
	var u *am.Undelivered
	if err := m.call(node); !errors.As(err, &u) || u.Reason != arctic.ReasonDeparted {
		m.t.Fatalf("calling node %d, which was killed: %v", node, err)
	}
}

// notices returns what a host's daemon has counted.
func (m *mortals) notices(host int) report.NoticeCounters {
	m.t.Helper()
	return *portsOf(m.t, m.daemons[host]).Notices
}

// until waits for something that a daemon has counted.
func (m *mortals) until(what string, host int, so func(n report.NoticeCounters) bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !so(m.notices(host)); {
		if time.Now().After(end) {
			m.t.Fatalf("waited in vain: %s; host %d has %+v", what, host, m.notices(host))
		}
	}
}

// Rule: when a process of a direct job is killed, the others on its host and on another one know
// that it is dead, without waiting for its silence. They know that its next life is there, although
// it says nothing. All that holds for the next death, too.
func TestDeathIsTold(t *testing.T) {
	t.Run("without a key", func(t *testing.T) { deathIsTold(t, newBed(t)) })
	t.Run("with a key", func(t *testing.T) {
		b := newBed(t)
		key := b.key("key")
		b.tune = func(c *daemon.Config) { c.Key = key }
		deathIsTold(t, b)
	})
}

func deathIsTold(t *testing.T, b *bed) {
	tune := b.tune
	b.tune = func(c *daemon.Config) {
		if tune != nil {
			tune(c)
		}
		c.Metrics = "unix:" + b.metrics(c.Card)
	}
	m := b.mortal(time.Hour, time.Hour, 2, 0, 1, 0)
	var processes [3]*child
	for life := range uint16(3) {
		for node := 1; node < 3; node++ {
			processes[node] = m.node(uint16(node), life)
			m.answersAgain(node)
		}
		for node := 1; node < 3; node++ {
			processes[node].kill()
			m.gone(node)
			m.gone(node) // and so it stays
			if node == 1 {
				m.answers(2)
			}
		}
	}
	n, served := m.notices(0), scrape(t, b.metrics(0))
	for what, want := range map[string]uint64{"heard": n.Heard, "doubtful": n.Doubtful} {
		if line := fmt.Sprintf("funid_notices_total{outcome=%q} %d\n", what, want); !strings.Contains(served, line) {
			t.Errorf("no line %q in the metrics", line)
		}
	}
	// three ends and two returns
	if n.Heard < 5 || n.Refused+n.Late+n.Strange+n.Unheard+n.Returned != 0 {
		t.Errorf("host 0 has %+v", n)
	}
}

// Rule: who attaches after a process has ended hears of it as well.
func TestDeathBeforeAttaching(t *testing.T) {
	b := newBed(t)
	m := b.mortal(time.Hour, time.Hour, 2, 0, 1, 0)
	dead := m.node(1, 0)
	dead.kill()
	m.until("the end is told", 0, func(n report.NoticeCounters) bool { return n.Heard > 0 })
	m.gone(1) // it never met it
	e, err := funet.Open(m.ctx, funet.Options{Attach: &attach.Config{Socket: m.daemons[0].socket, GID: m.gid, Node: 2,
		Token: m.token}})
	if err != nil {
		t.Fatal(err)
	}
	var u *am.Undelivered
	if _, err := e.Call(m.ctx, 1, 1, nil); !errors.As(err, &u) || u.Reason != arctic.ReasonDeparted {
		t.Errorf("calling who was dead before: %v", err)
	}
	if err := e.Close(m.ctx); err != nil {
		t.Error(err)
	}
}

// Rule (disinherit): a process that dies while its daemon is being replaced is found by the next
// one, when its job is there again.
func TestDeathWithoutADaemon(t *testing.T) {
	b := newBed(t)
	m := b.mortal(time.Hour, time.Hour, 2, 0, 1)
	process := m.node(1, 0)
	m.answers(1)
	m.daemons[1].stop(t)
	process.kill()
	m.daemons[1] = m.connect[1]()
	m.owners[1] = dial(t, m.daemons[1].socket)
	if _, err := m.owners[1].Job(attach.JobRequest{GID: m.gid, Direct: true, Token: m.token, Cards: m.cards}); err !=
		nil {
		t.Fatal(err)
	}
	m.gone(1)
}

// Rule (attach.Doubt): a process that is held up, on this host or another, for longer than
// peer_timeout is not given up, because its daemon says that it lives; what it was sent is answered
// when it goes on. When it is killed meanwhile its end is told.
func TestSilentProcessLives(t *testing.T) {
	long.Test(t)
	const timeout = time.Second
	b := newBed(t)
	m := b.mortal(timeout, time.Hour, 2, 0, 1, 0)
	for node := 1; node < 3; node++ {
		process := m.node(uint16(node), 0)
		for _, end := range []syscall.Signal{syscall.SIGCONT, syscall.SIGKILL} {
			m.answers(node)
			if err := process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped(t, process.cmd.Process.Pid)
			called := make(chan error, 1)
			go func() { called <- m.call(node) }()
			select {
			case err := <-called:
				t.Fatalf("node %d, which is stopped, was given up: %v; %+v", node, err, m.notices(0))
			case <-time.After(5 * timeout / 2):
			}
			if err := process.cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			err := <-called
			var u *am.Undelivered
			if end == syscall.SIGKILL && (!errors.As(err, &u) || u.Reason != arctic.ReasonDeparted) ||
				end == syscall.SIGCONT && err != nil {
				t.Fatalf("node %d after %v: %v", node, end, err)
			}
		}
		process.kill()
	}
	if n := m.notices(0); n.Doubtful < 4 {
		t.Errorf("asked %d times", n.Doubtful)
	}
}

// stopped waits until all threads of a process have stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, task := range tasks {
		for end := time.Now().Add(patience); ; {
			if text, err := os.ReadFile(task); err == nil && bytes.Contains(text, []byte(") T ")) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not stop", task)
			}
		}
	}
}

// Rule: a process that has forked children goes on as it did. When it is killed its end is told and
// its place is free, although the children live. A child that executes another program holds
// nothing. Any other child has none of the mappings; it has the socket, which counts for its user
// as long.
func TestChildrenOfAProcess(t *testing.T) {
	b := newBed(t)
	m := b.mortal(time.Hour, time.Hour, 2, 0, 1)
	process := m.run(1, role{Do: "serve", Socket: m.daemons[1].socket, GID: m.gid, Node: 1,
		Token: m.token.Text(), Heirs: true})
	for range 100 {
		m.answers(1)
	}
	var children []int
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", process.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, path := range threads {
		text, _ := os.ReadFile(path) // the thread may have ended
		words = append(words, strings.Fields(string(text))...)
	}
	for _, word := range words {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, pid)
		t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil || bytes.Contains(maps, []byte("socket:[")) || bytes.Contains(maps, []byte("memfd:")) {
			t.Errorf("child %d has mappings (%v): %s", pid, err, maps)
		}
	}
	if len(children) != 2 {
		t.Fatalf("the process has children %v", children)
	}
	process.kill()
	m.gone(1)
	for _, pid := range children {
		if err := unix.Kill(pid, 0); err != nil {
			t.Errorf("child %d has ended: %v", pid, err)
		}
	}
	if s := portsOf(t, m.daemons[1]); len(s.Ports) != 0 || s.Bytes == 0 {
		t.Errorf("ports %+v, and %d bytes are counted", s.Ports, s.Bytes)
	}
	m.node(1, 1)
	m.answersAgain(1)
}

// Rule: who is called before it is there is waited for, as long as connect_timeout says, and not
// peer_timeout.
func TestProcessThatComesLate(t *testing.T) {
	const timeout = time.Second
	b := newBed(t)
	m := b.mortal(timeout, time.Hour, 2, 0, 1, 0)
	called := make(chan error, 2)
	for node := 1; node < 3; node++ {
		go func() { called <- m.call(node) }()
	}
	select {
	case err := <-called:
		t.Fatalf("a node that had not come was given up: %v", err)
	case <-time.After(5 * timeout / 2):
	}
	m.node(1, 0)
	m.node(2, 0)
	for range 2 {
		if err := <-called; err != nil {
			t.Error(err)
		}
	}
}

// Rule: a daemon believes a host about the processes that the job has there, and about no others;
// what it does not believe is counted and changes nothing. Processes tell daemons nothing.
func TestForgedNotices(t *testing.T) {
	b := newBedOf(t, lab.Options{Hosts: 3})
	m := b.mortal(time.Hour, time.Hour, 3, 0, 1, 1)
	m.node(1, 0)
	m.node(2, 0)
	m.answers(1, 2)
	life, tag := m.daemons[1].LifeOf(m.gid, 1)
	mine, _ := m.daemons[0].LifeOf(m.gid, 0)
	ordinary, err := dial(t, m.daemons[0].socket).Job(attach.JobRequest{Token: m.token, Cards: []uint16{0, 2}})
	if err != nil {
		t.Fatal(err)
	}
	const late = 1 << 62
	for _, c := range []struct {
		what  string
		from  int
		n     daemon.Notice
		count func(n *report.NoticeCounters) *uint64
	}{
		{"a host that is not the job's", 2, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag, Life: life,
			Order: late}, refused},
		{"a host of the job about a node here", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 0, Tag: tag, Life: mine,
			Order: late}, refused},
		{"a node that there is not", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 3, Tag: tag, Life: life, Order: late},
			refused},
		{"a question of a host that is not the job's", 2,
			daemon.Notice{Kind: 3, GID: m.gid, Node: 0, Tag: tag, Life: mine, Order: late}, refused},
		{"a question about a node there", 1, daemon.Notice{Kind: 3, GID: m.gid, Node: 1, Tag: tag, Life: life,
			Order: late}, refused},
		{"another kind", 1, daemon.Notice{Kind: 4, GID: m.gid, Node: 1, Tag: tag, Life: life, Order: late}, refused},
		{"life 0", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag, Order: late}, refused},
		{"the system's group", 1, daemon.Notice{Kind: 1, Node: 1, Tag: tag, Life: life, Order: late}, refused},
		{"another tag", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag + 1, Life: life, Order: late}, strange},
		{"another job", 1, daemon.Notice{Kind: 1, GID: m.gid ^ 1024, Node: 1, Tag: tag, Life: life, Order: late},
			strange},
		{"a job of contexts", 2, daemon.Notice{Kind: 1, GID: ordinary, Node: 1,
			Tag: arctic.JobTag(m.token[:], ordinary), Life: life, Order: late}, strange},
		{"an earlier life", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag, Life: life + 1, Order: 10}, nil},
		{"older news", 1, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag, Life: life, Order: 9},
			func(n *report.NoticeCounters) *uint64 { return &n.Late }},
	} {
		before := m.notices(0)
		m.daemons[c.from].Send(0, c.n)
		m.until(c.what, 0, func(n report.NoticeCounters) bool {
			return n.Heard > before.Heard && (c.count == nil || *c.count(&n) == *c.count(&before)+1)
		})
		m.answers(1, 2)
	}
	if n := m.notices(0); n.Unheard != 0 {
		t.Errorf("%+v", n)
	}
	k := dial(t, m.daemons[0].socket)
	answer, _ := k.ask(attach.Fate{Node: 1, Life: life, Order: late}.Encode(), 0)
	if _, err := attach.DecodeBody(answer, attach.KindFate|attach.AnswerBit); !errors.Is(err, attach.ErrKind) {
		t.Errorf("a process tells of an end: %v", err)
	}
	answer, _ = k.ask(attach.Doubt{Node: 1, Life: life}.Encode(), 0)
	if _, err := attach.DecodeBody(answer, attach.KindFate|attach.AnswerBit); !errors.Is(err, attach.ErrNode) {
		t.Errorf("who has no port asks: %v", err)
	}
	m.answers(1, 2)
	// this test can fail
	m.daemons[1].Send(0, daemon.Notice{Kind: 1, GID: m.gid, Node: 1, Tag: tag, Life: life, Order: late})
	// until it is believed
	for m.call(1) == nil {
		if m.ctx.Err() != nil {
			t.Fatal("what is true is not believed")
		}
	}
	m.gone(1)
}

func refused(n *report.NoticeCounters) *uint64 { return &n.Refused }
func strange(n *report.NoticeCounters) *uint64 { return &n.Strange }
