package rma_test

// This file is a process of the tests: a member of chains, or the one that sends along them. It is
// told what to do by lines on its standard input, and says in lines what has become of it. It has a
// card of its own, or a daemon's.

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/xdp"
)

// memberVariable makes the test binary such a process: it is a memberPlace in JSON.
const memberVariable = "FUNET_TEST_CHAIN_MEMBER"

func TestMain(m *testing.M) {
	for variable, be := range map[string]func(string) error{memberVariable: beMember, absentVariable: beWindowProcess} {
		if text := os.Getenv(variable); text != "" {
			if err := be(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// memberPlace is where a process is.
type memberPlace struct {
	GID, Node  uint16
	MACs       [][6]byte // by node, of cards of their own; nil: they are daemons'
	Socket     string
	Token      string
	Silence    time.Duration // PeerTimeout of a card of its own
	Membership []funi.Chain
}

// alongChain is a chain as its origin knows it.
type alongChain struct {
	Chain, First, Members uint16
}

const (
	chainKey   = 0x6368_6169_6e00_0000 // of each member's window, in key slot 0
	chainBase  = 0x100000
	chainBytes = 1 << 20
	// ofChain is the part of the window that rounds of a chain write, by its number modulo 4: one
	// chain has made tens of thousands of rounds while another waits for a member that is silent.
	ofChain = chainBytes / 4
	// roundBytes is what a put of a round has.
	roundBytes = arctic.MaxMulticastBytes
	mostRounds = ofChain / roundBytes
	roundType  = 300 // of messages
	// underWay is how many rounds of a chain are under way at once: more than the 16 copies that a
	// member with at most one behind it takes at once, so that some wait before it. Those that a
	// member had taken when it ended, and had not reported, name nobody.
	underWay = 20
)

// place returns where in the window the put of a round writes.
func place(number, chain uint32) uint32 {
	return chain%4*ofChain + number%mostRounds*roundBytes
}

// round returns what the put of a round writes, and the words of the message that says so.
func round(number, chain uint32) (put []byte, words []uint32) {
	put = make([]byte, roundBytes)
	for i := range put {
		put[i] = byte(number*31 + uint32(i)*7 + chain + 1)
	}
	return put, []uint32{number, chain, ^number, number * 2654435761, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
}

// memberState is what a process knows.
type memberState struct {
	memberPlace
	carrier  funet.Carrier
	end      *rma.Endpoint
	memory   []byte
	commands chan string
	seen     map[[2]uint32]bool // rounds, each by its number and chain
	counts   memberCounts
	left     map[leftCard]bool
	sending  []*sending
	rounds   map[uint16]uint32 // by chain
}

// leftCard names a copy of a multicast, or the report on one, by its receiver and the record of its
// origin, which no other has had.
type leftCard struct {
	to, origin uint16
	id         uint32
}

// memberCounts is what it says when it is asked for counts.
type memberCounts struct {
	Messages int            // of rounds, each with its put
	Copies   map[string]int // of multicasts, that left the card, by the node that they are for
	Reports  int            // that left the card
	// of both, that had left before: their frame was lost, or the receiver's chain was full
	Again int
}

// sending is a chain on which rounds are under way.
type sending struct {
	alongChain
	left  int
	under map[rma.ID]*roundSent
	done  chainDone
}

// roundSent is a round whose put, or then whose message, is under way.
type roundSent struct {
	number uint32
	put    bool
}

// chainDone is what became of rounds.
type chainDone struct {
	Chain   uint16
	Rounds  int // delivered to all
	Failed  int
	Reason  arctic.Reason // of the first that has failed and names somebody
	Told    funi.Delivery // of it
	Unnamed int           // failed, and named nobody
}

func beMember(text string) (err error) {
	m := &memberState{commands: make(chan string), rounds: map[uint16]uint32{}, seen: map[[2]uint32]bool{},
		left: map[leftCard]bool{}}
	m.counts.Copies = map[string]int{}
	if err := json.Unmarshal([]byte(text), &m.memberPlace); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.carrier.Close(2*time.Second)) }()
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			m.commands <- lines.Text()
		}
		close(m.commands)
	}()
	for _, c := range m.Membership {
		if err := m.end.Join(c); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return m.serve()
}

// open opens the place, and a window that others may write.
func (m *memberState) open() (err error) {
	sizes := funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 256}
	if m.MACs == nil {
		token, err := attach.ParseToken(m.Token)
		if err != nil {
			return err
		}
		if m.carrier, err = attach.Open(attach.Config{Socket: m.Socket, GID: m.GID, Node: m.Node, Token: token,
			Remote: sizes}); err != nil {
			return err
		}
	} else {
		c := card.Config{Interfaces: []string{"fu0"}, GID: m.GID, Node: m.Node, Attach: xdp.AttachGeneric,
			Bind: xdp.BindCopy, CPU: -1, Remote: sizes,
			Tune: func(c *engine.Config) { c.PeerTimeout, c.ConnectTimeout = m.Silence, m.Silence }}
		for node, mac := range m.MACs {
			c.Peers = append(c.Peers, card.Peer{Node: uint16(node), MAC: mac})
		}
		k, err := card.Open(c)
		if err != nil {
			return err
		}
		m.carrier = k
		k.Engine().Observe(m.observe)
	}
	if m.end, err = rma.New(m.carrier.Interface(), rand.Reader, m.drive); err != nil {
		return err
	}
	if m.memory, err = m.carrier.Segment(chainBase, chainBytes, funi.Keyed); err != nil {
		return err
	}
	if err := m.end.Use(funi.Segment{Base: chainBase, Memory: m.memory, Rights: funi.Keyed}); err != nil {
		return err
	}
	_, err = m.end.Expose(m.memory, rma.Options{Rights: funi.RightWrite, Key: chainKey})
	return err
}

// observe counts multicasts and reports in the frames that the card sends.
func (m *memberState) observe(_ int, frame []byte, fate engine.Fate) {
	if fate.Outcome != engine.Sent {
		return
	}
	f, err := arctic.Parse(frame)
	if err != nil || f.Packets() == 0 {
		return
	}
	for rest := f.Train(); len(rest) > 0; {
		var p arctic.Packet
		p, rest = arctic.Next(rest)
		h := p.Header()
		var c arctic.Multicast
		var r arctic.Response
		switch as := (leftCard{to: h.Destination}); {
		case h.Kind == arctic.KindMulticast && p.Multicast(&h, &c):
			if as.origin, as.id = c.Origin, c.ID; m.leaves(as) {
				m.counts.Copies[fmt.Sprint(h.Destination)]++
			}
		case h.Kind == arctic.KindResponse && p.Response(&h, &r):
			if as.id = r.ID; m.leaves(as) {
				m.counts.Reports++
			}
		}
	}
}

// leaves notes that something leaves, and reports whether that is for the first time.
func (m *memberState) leaves(as leftCard) bool {
	if m.left[as] {
		m.counts.Again++
		return false
	}
	m.left[as] = true
	return true
}

func (m *memberState) drive() error {
	m.carrier.Drive()
	return errors.Join(m.carrier.Err(), m.take())
}

// take takes the messages of rounds. The put of each is there, and comes no second time: its place
// is cleared.
func (m *memberState) take() error {
	iface := m.carrier.Interface()
	for s := iface.Receive(funi.Request); s != nil; s = iface.Receive(funi.Request) {
		number, chain := s[funi.PayloadWord], s[funi.PayloadWord+1]
		put, words := round(number, chain)
		at := m.memory[place(number, chain):][:roundBytes]
		switch h := s.Header(); {
		case h.Type() != roundType || s.Source() != 0 || h.Length() != len(words) ||
			!equalWords(s[funi.PayloadWord:], words):
			return fmt.Errorf("node %d has a message that nobody has sent: %x", m.Node, s[:])
		case m.seen[[2]uint32{number, chain}]:
			return fmt.Errorf("node %d has round %d of chain %d twice", m.Node, number, chain)
		case !bytes.Equal(at, put):
			return fmt.Errorf("node %d: the put of round %d of chain %d is not there: %x", m.Node, number, chain, at)
		}
		m.seen[[2]uint32{number, chain}] = true
		clear(at)
		m.counts.Messages++
		iface.Release(funi.Request)
	}
	return nil
}

func equalWords(s, words []uint32) bool {
	for i, w := range words {
		if s[i] != w {
			return false
		}
	}
	return true
}

// serve does what it is told, until the end of its standard input.
func (m *memberState) serve() error {
	for {
		if err := m.drive(); err != nil {
			return err
		}
		if err := m.turn(); err != nil {
			return err
		}
		select {
		case line, ok := <-m.commands:
			if !ok {
				return nil
			}
			if err := m.obey(line); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		default:
		}
	}
}

// obey carries out a command: "chain" with a funi.Chain, "leave" a number, "send" a number of
// rounds along each chain that follows in JSON, "stop", "counts", "clean".
func (m *memberState) obey(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "chain":
		var c funi.Chain
		if err := json.Unmarshal([]byte(rest), &c); err != nil {
			return err
		}
		if err := m.end.Join(c); err != nil {
			return err
		}
		fmt.Println("joined")
	case "send":
		var o struct {
			Rounds int
			Along  []alongChain
		}
		if err := json.Unmarshal([]byte(rest), &o); err != nil {
			return err
		}
		for _, a := range o.Along {
			m.sending = append(m.sending, &sending{alongChain: a, left: o.Rounds, under: map[rma.ID]*roundSent{},
				done: chainDone{Chain: a.Chain}})
		}
	case "stop":
		for _, s := range m.sending {
			s.left = 0
		}
	case "counts":
		if err := m.drive(); err != nil { // what was complete before the command is in the queue
			return err
		}
		say("counts", m.counts)
	case "clean": // no put has come again after its message
		for i, b := range m.memory {
			if b != 0 {
				return fmt.Errorf("byte %#x of node %d is %#x", i, m.Node, b)
			}
		}
		fmt.Println("clean")
	default:
		return errors.New("no such command")
	}
	return nil
}

// say prints a word and a value in JSON.
func say(word string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is a struct of this file
	}
	fmt.Println(word, string(b))
}

// turn has rounds under way, and takes what has become of those that are.
func (m *memberState) turn() error {
	for _, s := range m.sending {
		for ; s.left > 0 && len(s.under) < underWay; s.left-- {
			m.rounds[s.Chain]++
			if err := m.send(s, &roundSent{number: m.rounds[s.Chain], put: true}); err != nil {
				return err
			}
		}
	}
	for r := (rma.Result{}); m.end.Next(&r); {
		if err := m.completed(&r); err != nil {
			return err
		}
	}
	for i := 0; i < len(m.sending); i++ {
		if s := m.sending[i]; s.left == 0 && len(s.under) == 0 {
			say("sent", s.done)
			m.sending = append(m.sending[:i], m.sending[i+1:]...)
			i--
		}
	}
	return nil
}

// send sends the put of a round, or its message.
func (m *memberState) send(s *sending, r *roundSent) error {
	put, words := round(r.number, uint32(s.Chain))
	o := funi.MulticastRequest{Chain: s.Chain, Members: s.Members}
	if r.put {
		o.Put, o.Key, o.Address, o.Data = true, chainKey, uint64(place(r.number, uint32(s.Chain))), put
	} else {
		o.Message = roundType
		for _, w := range words {
			o.Data = binary.LittleEndian.AppendUint32(o.Data, w)
		}
	}
	id, err := m.end.StartMulticast(s.First, o)
	s.under[id] = r
	return err
}

// completed takes what became of a put or a message. When one has failed no more are sent along
// that chain.
func (m *memberState) completed(r *rma.Result) error {
	for _, s := range m.sending {
		sent := s.under[r.ID]
		if sent == nil {
			continue
		}
		delete(s.under, r.ID)
		d := r.Delivery()
		var why *rma.Error
		switch {
		case r.Err == nil && (d != funi.Delivery{Delivered: int(s.Members)}):
			return fmt.Errorf("round %d has not failed, and has come to %+v", sent.number, d)
		case r.Err == nil && sent.put:
			sent.put = false
			return m.send(s, sent)
		case r.Err == nil:
			if s.done.Rounds++; s.done.Rounds%progressRounds == 0 {
				say("progress", s.done)
			}
		case !errors.As(r.Err, &why):
			return r.Err
		case d.Named == 0:
			s.left = 0
			s.done.Failed++
			s.done.Unnamed++
		default:
			s.left = 0
			if s.done.Failed++; s.done.Told.Named == 0 {
				s.done.Reason, s.done.Told = why.Reason, d
				say("failed", s.done)
			}
		}
		return nil
	}
	return fmt.Errorf("operation %d is none of this process's", r.ID)
}

// progressRounds is after how many rounds of a chain its origin says how far it is.
const progressRounds = 50
