package rma_test

// This file tests windows that are not present (Tokyo, sections 2.1, 3.1 and 3.3; engine,
// fault.go). The processes are on hosts of their own, with cards of their own or through daemons.
// One wants a window, and the window's owner is told and brings it back, or never does.

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/xdp"
)

// absentVariable makes the test binary a process with two windows: it is a windowPlace in JSON.
const absentVariable = "FUNET_TEST_WINDOW_PROCESS"

// windowPlace is where such a process is.
type windowPlace struct {
	GID, Node uint16
	MACs      [][6]byte // by node, of cards of their own; nil: they are daemons'
	Socket    string
	Token     string
	Patience  time.Duration // ConnectTimeout of a card of its own
}

const (
	// hiddenKey is of the window that is opened absent, and openKey of the one that is always
	// there, of each process.
	hiddenKey = 0x6869_6464_656e_0000
	openKey   = 0x6f70_656e_2020_0001
	// eachWindow is how many bytes each has, and wantedAt where its word is that others add to.
	eachWindow = 4096
	wantedAt   = 64
)

// windowProcess is what such a process knows.
type windowProcess struct {
	windowPlace
	carrier funet.Carrier
	end     *rma.Endpoint
	windows map[rma.Key]*rma.Window
	adding  map[rma.ID]string // what it was told, of operations under way
	every   *rma.Target       // it adds there all the time
	beside  int               // how often
}

// beWindowProcess carries out commands from its standard input: "resume" and "suspend"; "word KEY";
// "add NAME NODE KEY"; "put NAME NODE KEY", of 2000 bytes. After "beside NODE KEY" it adds there
// all the time, until "rest"; "count" asks how often it has. It says what has become of each: "done
// NAME", "failed NAME REASON"; and "missed NODE ADDRESS" when somebody wants a window.
func beWindowProcess(text string) (err error) {
	p := &windowProcess{windows: map[rma.Key]*rma.Window{}, adding: map[rma.ID]string{}}
	if err := json.Unmarshal([]byte(text), &p.windowPlace); err != nil {
		return err
	}
	if err := p.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.carrier.Close(2*time.Second)) }()
	commands := make(chan string)
	go func() {
		defer close(commands)
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			commands <- s.Text()
		}
	}()
	fmt.Println("ready")
	for {
		if err := p.turn(); err != nil {
			return err
		}
		select {
		case line, ok := <-commands:
			if !ok {
				return nil
			}
			if err := p.obey(line); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		default:
		}
	}
}

func (p *windowProcess) open() (err error) {
	sizes := funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 64}
	if p.MACs == nil {
		token, err := attach.ParseToken(p.Token)
		if err != nil {
			return err
		}
		if p.carrier, err = attach.Open(attach.Config{Socket: p.Socket, GID: p.GID, Node: p.Node, Token: token,
			Remote: sizes}); err != nil {
			return err
		}
	} else {
		c := card.Config{Interfaces: []string{"fu0"}, GID: p.GID, Node: p.Node, Attach: xdp.AttachGeneric,
			Bind: xdp.BindCopy, CPU: -1, Remote: sizes,
			Tune: func(c *engine.Config) { c.ConnectTimeout = p.Patience }}
		for node, mac := range p.MACs {
			c.Peers = append(c.Peers, card.Peer{Node: uint16(node), MAC: mac})
		}
		k, err := card.Open(c)
		if err != nil {
			return err
		}
		p.carrier = k
	}
	if p.end, err = rma.New(p.carrier.Interface(), rand.Reader, func() error {
		p.carrier.Drive()
		return p.carrier.Err()
	}); err != nil {
		return err
	}
	s := funi.Segment{Base: 0x10000, Rights: funi.Keyed | funi.Source}
	if s.Memory, err = p.carrier.Segment(s.Base, 2*eachWindow, s.Rights); err != nil {
		return err
	}
	if err := p.end.Use(s); err != nil {
		return err
	}
	for i, o := range []rma.Options{{Key: hiddenKey, Notifications: 2, Absent: true}, {Key: openKey}} {
		if p.windows[o.Key], err = p.end.Expose(s.Memory[i*eachWindow:][:eachWindow], o); err != nil {
			return err
		}
	}
	return nil
}

// turn lets the card run, and says what has become of operations.
func (p *windowProcess) turn() error {
	if p.carrier.Drive(); p.carrier.Err() != nil {
		return p.carrier.Err()
	}
	p.end.Poll()
	for r := (rma.Result{}); p.end.Next(&r); {
		name := p.adding[r.ID]
		delete(p.adding, r.ID)
		var why *rma.Error
		switch {
		case name == "beside" && r.Err == nil:
			p.beside++
		case r.Err == nil:
			fmt.Println("done", name)
		case errors.As(r.Err, &why):
			fmt.Println("failed", name, int(why.Reason))
		default:
			return r.Err
		}
		switch {
		case name == "beside" && p.every == nil:
			fmt.Println("did rest")
		case name == "beside":
			if err := p.addBeside(); err != nil {
				return err
			}
		}
	}
	for n := (rma.Notification{}); p.end.Notification(&n); {
		if n.Absent {
			fmt.Println("missed", n.Node, n.Address)
		}
	}
	return nil
}

func (p *windowProcess) addBeside() error {
	id, err := p.end.Add(*p.every, 1)
	p.adding[id] = "beside"
	return err
}

func (p *windowProcess) obey(line string) (err error) {
	var name string
	to := rma.Target{Address: wantedAt}
	var id rma.ID
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "resume":
		err = p.end.Resume(p.windows[hiddenKey])
	case "suspend":
		err = p.end.Suspend(p.windows[hiddenKey])
	case "word":
		var key rma.Key
		if _, err := fmt.Sscan(rest, &key); err != nil {
			return err
		}
		fmt.Println("word", p.windows[key].Memory[wantedAt], p.windows[key].Memory[2000])
		return nil
	case "add":
		if _, err = fmt.Sscan(rest, &name, &to.Node, &to.Key); err == nil {
			id, err = p.end.Add(to, 1)
			p.adding[id] = name
		}
		return err
	case "put":
		if _, err = fmt.Sscan(rest, &name, &to.Node, &to.Key); err == nil {
			put := p.windows[openKey].Memory[1000:3000]
			for i := range put {
				put[i] = 7
			}
			id, err = p.end.Put(to.At(1000), put, rma.With{Ack: true})
			p.adding[id] = name
		}
		return err
	case "beside":
		if _, err = fmt.Sscan(rest, &to.Node, &to.Key); err == nil {
			p.every = &to
			err = p.addBeside()
		}
		return err
	case "rest":
		p.every = nil
		return nil
	case "count":
		fmt.Println("count", p.beside)
		return nil
	default:
		return errors.New("no such command")
	}
	fmt.Println("did", word)
	return err
}

// windowed is such a process as the test knows it.
type windowed struct {
	t     *testing.T
	node  uint16
	stdin io.WriteCloser
	lines chan string
	cmd   *exec.Cmd
}

func startWindowed(t *testing.T, l *lab.Lab, host int, place windowPlace) *windowed {
	t.Helper()
	text, err := json.Marshal(place)
	if err != nil {
		t.Fatal(err)
	}
	p := &windowed{t: t, node: place.Node, cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), absentVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		if out, err = p.cmd.StdoutPipe(); err == nil {
			err = l.Start(host, p.cmd)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.cmd.Process.Kill(), p.cmd.Wait() })
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// asked tells the process a command and checks what it says next; "" awaits nothing.
func (p *windowed) asked(command, want string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.stdin, command); err != nil {
		p.t.Fatalf("node %d has ended: %v", p.node, err)
	}
	if want != "" {
		p.says(want)
	}
}

// says waits for the next line of the process, which begins so, and returns what follows.
func (p *windowed) says(want string) string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		rest, is := strings.CutPrefix(line, want)
		if !ok || !is {
			p.t.Fatalf("node %d says %q (%v), not %q", p.node, line, ok, want)
		}
		return rest
	case <-time.After(time.Minute):
		p.t.Fatalf("node %d does not say %q", p.node, want)
	}
	return ""
}

// count asks how often the process has added beside.
func (p *windowed) count() (n int) {
	p.t.Helper()
	p.asked("count", "")
	if _, err := fmt.Sscan(p.says("count "), &n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// Rule: an operation on a window that its owner has opened absent waits, and the owner hears who
// wants what; when the owner brings the window back it is carried out, once. An owner that never
// answers costs the sender ConnectTimeout: it hears that the window is withheld. All that time the
// sender's other operations, and others', go on.
func TestAbsentWindowsOfProcesses(t *testing.T) {
	long.Test(t)
	const gid, patience = 9, 4 * time.Second
	up := func(t *testing.T) *lab.Lab {
		l, err := lab.Up(lab.Options{Hosts: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	t.Run("with cards of their own", func(t *testing.T) {
		l := up(t)
		place := windowPlace{GID: gid, Patience: patience}
		for _, h := range l.Hosts() {
			place.MACs = append(place.MACs, [6]byte(h.Interfaces[0].MAC))
		}
		var all []*windowed
		for node := range 3 {
			place.Node = uint16(node)
			all = append(all, startWindowed(t, l, node, place))
		}
		absentWindows(t, patience, all[0], all[1], all[2])
	})
	t.Run("through daemons", func(t *testing.T) {
		l := up(t)
		var all []*windowed
		for host, n := range daemons.Start(t, l, daemons.Build(t, "../.."), gid,
			fmt.Sprintf("connect_timeout: %v\n", patience)) {
			all = append(all, startWindowed(t, l, host,
				windowPlace{GID: gid, Node: n.Node, Socket: n.Socket, Token: n.Token.Text()}))
		}
		absentWindows(t, patience, all[0], all[1], all[2])
	})
}

func absentWindows(t *testing.T, patience time.Duration, owner, sender, bystander *windowed) {
	for _, p := range []*windowed{owner, sender, bystander} {
		p.says("ready")
	}
	// they know each other
	bystander.asked(fmt.Sprintf("add first %d %d", owner.node, openKey), "done first")
	bystander.asked(fmt.Sprintf("beside %d %d", owner.node, openKey), "")
	waits := func(name string) {
		t.Helper()
		sender.asked(fmt.Sprintf("add %s %d %d", name, owner.node, hiddenKey), "")
		owner.says(fmt.Sprintf("missed %d %d", sender.node, wantedAt))
		before := bystander.count()
		for range 3 {
			// and nothing of what waits
			sender.asked(fmt.Sprintf("add elsewhere %d %d", bystander.node, openKey), "done elsewhere")
		}
		for after := before; after < before+100; after = bystander.count() {
			continue
		}
	}
	waits("waiting")
	sender.asked(fmt.Sprintf("put behind %d %d", owner.node, hiddenKey), "")
	sender.asked(fmt.Sprintf("add elsewhere %d %d", bystander.node, openKey), "done elsewhere")
	owner.asked(fmt.Sprintf("word %d", hiddenKey), "word 0 0")
	owner.asked("resume", "did resume")
	// operations are not ordered
	done := []string{sender.says("done "), sender.says("done ")}
	slices.Sort(done)
	if want := []string{"behind", "waiting"}; !slices.Equal(done, want) {
		t.Fatalf("after the window is back the sender has done %q, want %q", done, want)
	}
	owner.asked(fmt.Sprintf("word %d", hiddenKey), "word 1 7")

	owner.asked("suspend", "did suspend")
	begin := time.Now()
	waits("withheld")
	before := bystander.count()
	sender.says(fmt.Sprintf("failed withheld %d", arctic.ReasonWithheld))
	if took := time.Since(begin); took < patience {
		t.Errorf("it was withheld after %v, want %v at least", took, patience)
	}
	if after := bystander.count(); after < before+100 {
		t.Errorf("while the sender waits for %v others have %d operations carried out", patience, after-before)
	}
	owner.asked(fmt.Sprintf("word %d", hiddenKey), "word 1 7")
	owner.asked("resume", "did resume")
	sender.asked(fmt.Sprintf("add again %d %d", owner.node, hiddenKey), "done again")
	owner.asked(fmt.Sprintf("word %d", hiddenKey), "word 2 7")
	bystander.asked("rest", "did rest")
	for _, p := range []*windowed{owner, sender, bystander} {
		p.stdin.Close()
	}
	for _, p := range []*windowed{owner, sender, bystander} {
		for range p.lines {
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("node %d: %v", p.node, err)
		}
	}
}
