package engine_test

// This file holds what New and Attach refuse, and the defaults.

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

func goodConfig() engine.Config {
	c := engine.Native()
	c.Card, c.Incarnation, c.Routes = 3, 1, []uint32{3, 4, engine.NoRoute}
	c.Ports = []port.Port{wire.New(wire.Config{}).Plug(address(3))}
	c.Peers = []engine.Peer{{Card: 4, Address: address(4), Local: address(3)}}
	return c
}

// Rule: New refuses what the card could not work with, and each refusal wraps
// ErrConfig (Config.check).
func TestNewRefuses(t *testing.T) {
	for what, spoil := range map[string]func(*engine.Config){
		"no incarnation":          func(c *engine.Config) { c.Incarnation = 0 },
		"no lines":                func(c *engine.Config) { c.Lines = 0 },
		"one line":                func(c *engine.Config) { c.Lines, c.ReplyLines = 1, 1 },
		"too many lines":          func(c *engine.Config) { c.Lines = 64*64 + 1 },
		"no lines for replies":    func(c *engine.Config) { c.ReplyLines = 0 },
		"no lines for requests":   func(c *engine.Config) { c.ReplyLines = c.Lines },
		"empty trains":            func(c *engine.Config) { c.Train = 0 },
		"long trains":             func(c *engine.Config) { c.Train = arctic.MaxTrain + 1 },
		"no FIFO":                 func(c *engine.Config) { c.FIFO = 0 },
		"negative FIFO":           func(c *engine.Config) { c.FIFO = -1 },
		"no window":               func(c *engine.Config) { c.FirstWindow = 0 },
		"wide window":             func(c *engine.Config) { c.FirstWindow = engine.Window + 1 },
		"never acknowledging":     func(c *engine.Config) { c.AckEvery = 0 },
		"seldom acknowledging":    func(c *engine.Config) { c.AckEvery = engine.Window/2 + 1 },
		"negative duration":       func(c *engine.Config) { c.AckDelay = -1 },
		"negative timeout":        func(c *engine.Config) { c.PeerTimeout = -time.Second },
		"MinRTO above MaxRTO":     func(c *engine.Config) { c.MinRTO = c.MaxRTO + 1 },
		"MinHold above MaxHold":   func(c *engine.Config) { c.MinHold = c.MaxHold + 1 },
		"peers but no port":       func(c *engine.Config) { c.Ports = nil },
		"too many routes":         func(c *engine.Config) { c.Routes = make([]uint32, 1<<16+1) },
		"itself as a peer":        func(c *engine.Config) { c.Peers[0].Card = 3 },
		"a peer twice":            func(c *engine.Config) { c.Peers = append(c.Peers, c.Peers[0]) },
		"a peer behind no port":   func(c *engine.Config) { c.Peers[0].Port = 1 },
		"a peer behind port -1":   func(c *engine.Config) { c.Peers[0].Port = -1 },
		"a route to a stranger":   func(c *engine.Config) { c.Routes[0] = 5 },
		"a route beyond 16 bits":  func(c *engine.Config) { c.Routes[0] = 1<<16 + 4 },
		"blocks that take time":   func(c *engine.Config) { c.Timing = &engine.Timing{Bus: sbus(), Bursts: []int{1}} },
		"timed blocks of no size": func(c *engine.Config) { stepped(c); c.BlockBytes = 0 },
		"timed blocks too long":   func(c *engine.Config) { stepped(c); c.BlockBytes = engine.MaxTimedBlock + 16 },
		"blocks of 520 bytes":     func(c *engine.Config) { c.BlockBytes = 520 },
		"blocks of less than 0":   func(c *engine.Config) { c.BlockBytes = -16 },
		"time without a bus": func(c *engine.Config) {
			c.Timing, c.Blocks = &engine.Timing{Bursts: []int{1}}, false
		},
	} {
		c := goodConfig()
		spoil(&c)
		if _, err := engine.New(c); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", what, err)
		} else if strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: the text is no sentence: %v", what, err)
		}
	}
	c := goodConfig()
	c.AckDelay, c.FirstRTO, c.MinRTO, c.MaxRTO, c.MinHold, c.MaxHold, c.PeerTimeout, c.ConnectTimeout = 0, 0,
		0, 0, 0, 0, 0, 0
	if _, err := engine.New(c); err != nil {
		t.Errorf("durations of zero, which take the defaults: %v", err)
	}
}

// Rule: a card without ports and peers serves its own contexts (Config).
func TestCardAlone(t *testing.T) {
	c := goodConfig()
	c.Ports, c.Peers, c.Routes = nil, nil, []uint32{3}
	card, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if at := card.Step(1); at != engine.Never {
		t.Errorf("wants to run at %d, want never", at)
	}
	card.Leave()
	if card.Established(0) || card.Established(math.MaxUint16) {
		t.Error("knows peers")
	}
}

// Rule: Attach refuses a GID of more than 11 bits (thesis 3.1.2), a node that is
// there already, and queues that do not lie in their memory; the refused leave
// nothing behind.
func TestAttachRefuses(t *testing.T) {
	card, err := engine.New(goodConfig())
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() *funi.Memory {
		m, err := funi.NewMemory(4)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := funi.Initialize(m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if _, err := card.Attach(fresh(), arctic.MaxGID+1, 0, jobTag); err == nil {
		t.Error("GID 2048 was accepted")
	}
	bad := fresh()
	bad.Page.Store(funi.RQSQBase, 1<<20)
	if _, err := card.Attach(bad, 5, 0, jobTag); !errors.Is(err, funi.ErrLayout) {
		t.Errorf("base outside of the memory: %v, want ErrLayout", err)
	}
	x, err := card.Attach(fresh(), 5, 0, jobTag)
	if err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	if x.GID() != 5 || x.Node() != 0 || !x.Idle() {
		t.Errorf("context of group %d, node %d, idle %v", x.GID(), x.Node(), x.Idle())
	}
	if _, err := card.Attach(fresh(), 5, 0, jobTag); !errors.Is(err, engine.ErrAttached) {
		t.Errorf("the same node again: %v, want ErrAttached", err)
	}
	for _, other := range [][2]uint16{{5, 1}, {6, 0}, {arctic.MaxGID, math.MaxUint16}} {
		if _, err := card.Attach(fresh(), other[0], other[1], jobTag); err != nil {
			t.Errorf("group %d, node %d: %v", other[0], other[1], err)
		}
	}
}

// Rule (Config.Direct): a direct card has contexts of its own node and job alone, and none of the
// system group's work; others are refused and leave nothing behind.
func TestDirectCardRefuses(t *testing.T) {
	job := uint64(jobTag)
	cfg := goodConfig()
	cfg.Card, cfg.Direct = 3, &job
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	attach := func(node uint16, tag uint64) error {
		m, err := funi.NewMemory(4)
		if err == nil {
			_, err = funi.Initialize(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = card.Attach(m, 5, node, tag)
		return err
	}
	for _, c := range []struct {
		node uint16
		tag  uint64
		want error
	}{{2, jobTag, engine.ErrDirect}, {3, jobTag + 1, engine.ErrDirect}, {3, jobTag, nil},
		{3, jobTag, engine.ErrAttached}} {
		if err := attach(c.node, c.tag); !errors.Is(err, c.want) {
			t.Errorf("node %d with tag %#x: %v, want %v", c.node, c.tag, err, c.want)
		}
	}
	cfg.AnyGroup = true
	if _, err := engine.New(cfg); !errors.Is(err, engine.ErrConfig) {
		t.Errorf("direct, for any group: %v, want %v", err, engine.ErrConfig)
	}
	cfg.AnyGroup, cfg.SystemEvent = false, func() {}
	if _, err := engine.New(cfg); !errors.Is(err, engine.ErrConfig) {
		t.Errorf("direct, for the system group: %v, want %v", err, engine.ErrConfig)
	}
}
