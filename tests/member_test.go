package tests

// This file is a member: the test binary as a node of a group. It is a small program that does what
// lines on standard input tell it. It reports in JSON what its NIC program, its card and the
// process have counted.

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// memberConfig configures a member at its start.
type memberConfig struct {
	Interface string
	GID, Node uint16
	MACs      [][6]byte // by node
	Attach    xdp.AttachMode
	Key       []byte // of all members, with which frames stay readable; nil: there is none
	Record    int    // how many of the frames that it sends it reports
	// Addresses, by node, have frames travel in UDP datagrams, if there are any.
	Addresses []netip.Addr
}

// memberReport is a member's report.
type memberReport struct {
	NIC     bpf.Counters    `json:"nic"`
	Engine  engine.Counters `json:"engine"`
	Socket  xdp.Statistics  `json:"socket"`
	UDP     afxdp.Datagrams `json:"udp"`
	Process tally           `json:"process"`
	Now     time.Duration   `json:"now"`              // of the card's clock
	Epoch   uint64          `json:"epoch"`            // of the two cards
	Frames  string          `json:"frames,omitempty"` // hexadecimal, with spaces between them
}

// tally counts what a member's process has received.
type tally struct {
	Requests uint64 `json:"requests"`
	Replies  uint64 `json:"replies"`
	Wrong    uint64 `json:"wrong"`   // words or source not as they should be, or not next in order
	Unknown  uint64 `json:"unknown"` // for no handler
}

// member runs a member until standard input ends. Commands: "report" prints one, "exchange
// N" sends N requests to the other node, checks each reply and then prints "done".
func member(text string) error {
	var c memberConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	cfg := card.Config{
		Interfaces: []string{c.Interface}, GID: c.GID, Node: c.Node, Attach: c.Attach, Bind: xdp.BindCopy, CPU: -1,
	}
	if c.Key != nil {
		k, err := link.NewKey(c.Key)
		if err != nil {
			return err
		}
		cfg.Key, cfg.Readable = k, true
	}
	for n, mac := range c.MACs {
		cfg.Peers = append(cfg.Peers, card.Peer{Node: uint16(n), MAC: mac})
		if len(c.Addresses) > 0 {
			cfg.UDP, cfg.Peers[n].Address = &card.UDP{}, c.Addresses[n]
		}
	}
	k, err := card.Open(cfg)
	if err != nil {
		return err
	}
	e, err := am.New(k.Interface(), int(c.Node), len(c.MACs), k.Drive, 0)
	if err != nil {
		return errors.Join(err, k.Close(0))
	}
	m := &memberState{card: k, e: e, other: 1 - int(c.Node)}
	if c.Record > 0 { // a readable frame is shown as it is on the wire
		k.Engine().Observe(func(_ int, frame []byte, fate engine.Fate) {
			if fate.Outcome == engine.Sent && len(m.frames) < c.Record {
				m.frames = append(m.frames, hex.EncodeToString(frame))
			}
		})
	}
	return errors.Join(m.serve(), k.Close(0))
}

type memberState struct {
	card  *card.Card
	e     *am.Endpoint
	other int
	tally
	frames []string
}

func (m *memberState) serve() error {
	wrong := func(msg *am.Message, next uint64) bool {
		w := msg.Words
		return msg.Source != m.other || len(w) != 4 || w[0] != uint32(next) || w[1] != ^w[0] ||
			w[2] != 0xfeed || w[3] != 0xf00d
	}
	var failed error
	err := errors.Join(
		m.e.Handle(0, func(msg *am.Message) {
			if wrong(msg, m.Requests) {
				m.Wrong++
				return
			}
			m.Requests++
			if err := msg.Reply4(1, msg.Words[0], msg.Words[1], 0xfeed, 0xf00d); err != nil {
				failed = err
			}
		}),
		m.e.Handle(1, func(msg *am.Message) {
			if wrong(msg, m.Replies) {
				m.Wrong++
				return
			}
			m.Replies++
		}))
	if err != nil {
		return err
	}
	commands := make(chan string)
	go func() {
		defer close(commands)
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			commands <- s.Text()
		}
	}()
	fmt.Println("ready")
	var sent, toSend uint64
	for failed == nil {
		if _, err := m.e.Poll(); err != nil {
			return err
		}
		if sent < toSend && m.Replies == sent { // one at a time, so that order is certain
			n := uint32(sent)
			if err := m.e.Request4(m.other, 0, n, ^n, 0xfeed, 0xf00d); err != nil {
				return err
			}
			sent++
		} else if toSend > 0 && m.Replies == toSend {
			fmt.Println("done")
			toSend = 0
		}
		select {
		case line, ok := <-commands:
			if !ok {
				return nil
			}
			name, arg, _ := strings.Cut(line, " ")
			switch name {
			case "report":
				if err := m.report(); err != nil {
					return err
				}
			case "exchange":
				n, err := strconv.ParseUint(arg, 10, 64)
				if err != nil {
					return err
				}
				toSend = sent + n
			default:
				return fmt.Errorf("no such command: %s", line)
			}
		default:
		}
	}
	return failed
}

func (m *memberState) report() (err error) {
	r := memberReport{Engine: m.card.Engine().Counters(), Process: m.tally, Frames: strings.Join(m.frames, " "),
		Now: time.Duration(m.card.Now())}
	r.Process.Unknown = m.e.Unknown()
	m.card.Engine().PeerStates(0, 1, func(p engine.PeerState) { r.Epoch = p.Epoch })
	port := m.card.Ports()[0]
	if r.NIC, err = port.NIC().Counters(); err != nil {
		return err
	}
	// which are none of the engine's, and come when they like
	r.NIC.Redirected -= m.card.Hellos().Arrived
	if r.Socket, err = port.Statistics(); err != nil {
		return err
	}
	r.UDP = port.Datagrams()
	return json.NewEncoder(os.Stdout).Encode(r)
}

// actor is the test's handle on a member.
type actor struct {
	*process
	stdin io.WriteCloser
	lines chan string
}

// startMember starts a member on a host of a lab and returns when it is ready.
func startMember(t *testing.T, l *lab.Lab, host int, c memberConfig) *actor {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(config))
	a := &actor{lines: make(chan string, 16)}
	if a.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of the test's own, because Wait would close one of cmd's before it is read.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	a.process = start(t, cmd, func(c *exec.Cmd) error { return l.Start(host, c) })
	w.Close()
	go func() {
		defer close(a.lines)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			a.lines <- s.Text()
		}
	}()
	a.expect("ready")
	return a
}

func (a *actor) tell(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.stdin, line+"\n"); err != nil {
		a.t.Fatalf("telling a member to %s: %v\nstderr: %s", line, err, a.complaint())
	}
}

// line is the member's next line.
func (a *actor) line() string {
	a.t.Helper()
	line := ""
	eventually(a.t, "a member says something", func() bool {
		select {
		case s, ok := <-a.lines:
			if !ok {
				a.t.Fatalf("a member ended: %s", a.complaint())
			}
			line = s
			return true
		default:
			return false
		}
	})
	return line
}

// complaint is the text that a member wrote before it ended.
func (a *actor) complaint() string {
	a.t.Helper()
	a.process.wait()
	return tail(a.stderr.String())
}

func (a *actor) expect(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("a member said %q, want %q", got, want)
	}
}

func (a *actor) report() memberReport {
	a.t.Helper()
	a.tell("report")
	return decode[memberReport](a.t, a.line())
}

// end ends the member.
func (a *actor) end() {
	a.t.Helper()
	a.stdin.Close()
	a.ok()
}
