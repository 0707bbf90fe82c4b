package tests

// This file tests that a group is closed: frames of another group never reach a
// process or its card, and damaged or forged ones are counted by what is wrong with
// them and delivered to nobody. The attacker has a raw socket on the same wire.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/xdp"
)

const (
	ownGroup     = 700
	foreignGroup = 701
	// batch is how many frames the attacker sends before it asks whether all arrived; a
	// veth with a native program drops what exceeds its ring of 256.
	batch = 64
)

// attack is a victim with its peer, and an attacker beside the peer.
type attack struct {
	t      *testing.T
	client *actor // node 0, host 0
	server *actor // node 1, host 1: the victim
	fd     int    // attacker's AF_PACKET socket in host 0
	to     unix.SockaddrLinklayer
	macs   [2][6]byte
	epoch  uint64 // of the two; 0: not known yet
	// With datagrams: the way of the client's frames, and that of a host that has another address.
	path, other *encap.Path
}

// way is how frames travel and reach the victim.
type way struct {
	mode xdp.AttachMode
	udp  bool
	key  bool
}

var ways = map[string]way{
	"native": {xdp.AttachNative, false, false}, "generic": {xdp.AttachGeneric, false, false},
	"native, UDP": {xdp.AttachNative, true, false}, "generic, UDP": {xdp.AttachGeneric, true, false},
}

func newAttack(t *testing.T, way way) *attack {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &attack{t: t}
	var macs [][6]byte
	for i, h := range l.Hosts() {
		a.macs[i] = [6]byte(h.Interfaces[0].MAC)
		macs = append(macs, a.macs[i])
	}
	err = l.Do(0, func() error {
		dev, err := net.InterfaceByName("fu0")
		if err != nil {
			return err
		}
		a.to.Ifindex = dev.Index
		// Protocol 0: the socket receives nothing.
		a.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(a.fd) })
	config := memberConfig{Interface: "fu0", GID: ownGroup, MACs: macs, Attach: way.mode}
	if way.udp {
		for _, h := range l.Hosts() {
			config.Addresses = append(config.Addresses, h.Interfaces[0].Addr.Addr())
		}
		a.path = a.pathFrom(config.Addresses[0], config.Addresses[1])
		a.other = a.pathFrom(config.Addresses[1].Next(), config.Addresses[1])
	}
	if way.key {
		config.Key, config.Record = bytes.Repeat([]byte("key"), 11)[:link.KeySize], 100
	}
	a.client = startMember(t, l, 0, config)
	config.Node, config.Record = 1, 0
	a.server = startMember(t, l, 1, config)
	return a
}

// pathFrom is the way of datagrams to the victim from an address, which the attacker may forge.
func (a *attack) pathFrom(from, to netip.Addr) *encap.Path {
	a.t.Helper()
	p, err := encap.NewPath(encap.Route{Source: from, Destination: to, From: a.macs[0], To: a.macs[1],
		Port: encap.DefaultPort, MTU: 1500})
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// datagram wraps a frame. One from another Ethernet address than the client's comes from another IP
// address instead.
func (a *attack) datagram(frame []byte) []byte {
	b := make([]byte, encap.Room+2048)
	copy(b[encap.Room:], frame)
	p := a.path
	if [6]byte(frame[6:12]) != a.macs[0] {
		p = a.other
	}
	start, end, _ := p.Wrap(b, len(frame))
	return b[start:end]
}

// send sends a frame, in a datagram if the victim takes those and it is a frame of FUNet's.
func (a *attack) send(frame []byte) {
	a.t.Helper()
	if a.path != nil && binary.BigEndian.Uint16(frame[12:]) == arctic.EtherType {
		frame = a.datagram(frame)
	}
	a.sendAsItIs(frame)
}

func (a *attack) sendAsItIs(frame []byte) {
	a.t.Helper()
	if err := unix.Sendto(a.fd, frame, 0, &a.to); err != nil {
		a.t.Fatalf("sending %d bytes: %v", len(frame), err)
	}
}

// atTag is the offset of the tag in a frame.
const atTag = 68

// epochOfBoth returns what an attacker knows who has seen a frame of the two.
func (a *attack) epochOfBoth() uint64 {
	if a.epoch == 0 {
		a.epoch = a.server.report().Epoch
	}
	return a.epoch
}

// compose makes a frame with one packet that the server would take from the client: of
// the right group, cards, epoch and nodes, with a sequence number that is next.
// It uses the reply level, at which the client itself never sends.
func (a *attack) compose(change func(h *arctic.Header, p *arctic.PacketHeader)) []byte {
	h := arctic.Header{
		To: a.macs[1], From: a.macs[0], Level: arctic.Reply, GID: ownGroup, Route: 1,
		SourceCard: 0, DestinationCard: 1, Epoch: a.epochOfBoth(),
		Tag: arctic.JobTag(make([]byte, card.TokenSize), ownGroup),
	}
	p := arctic.PacketHeader{Level: arctic.Reply, GID: ownGroup, Route: 1, Length: 5, Destination: 1, Source: 0}
	if change != nil {
		change(&h, &p)
	}
	b := make([]byte, 1514)
	h.Encode(b)
	packet := make([]byte, arctic.PacketHeaderSize+int(p.Length)*arctic.WordSize)
	p.Encode(packet)
	arctic.PutWords(packet[arctic.PacketHeaderSize:], []uint32{1, 0, ^uint32(0), 0xfeed, 0xf00d}[:min(5, p.Length)])
	n := arctic.PutPacket(b, arctic.HeaderSize, packet)
	arctic.Seal(b, n)
	return b[:n]
}

// edited composes a frame, changes bytes and seals it again, so that only the change is wrong.
func (a *attack) edited(change func(b []byte)) []byte {
	b := a.compose(nil)
	change(b)
	arctic.Seal(b, len(b))
	return b
}

// withReject composes a frame with one reject entry and no packet, changes the entry
// and seals it again.
func (a *attack) withReject(change func(entry []byte)) []byte {
	b := a.compose(nil)[:arctic.HeaderSize]
	b[28] = 0
	clear(b[atTag:][:8])
	b = append(b, make([]byte, arctic.RejectSize)...)
	n := arctic.PutReject(b, arctic.HeaderSize, arctic.Reject{Reason: arctic.ReasonQueueFull, Bits: 1})
	change(b[arctic.HeaderSize:])
	arctic.Seal(b, n)
	return b
}

// bits returns a frame for each bit that change flips.
func bits(from, to int, make func(bit int) []byte) (frames [][]byte) {
	for bit := from; bit < to; bit++ {
		frames = append(frames, make(bit))
	}
	return frames
}

// damages are the kinds of damage: frames, and the counter that each of them moves.
func (a *attack) damages() map[string]struct {
	counter string
	frames  [][]byte
} {
	type damage = struct {
		counter string
		frames  [][]byte
	}
	good := a.compose(nil)
	raw := func(change func(b []byte)) []byte { // not sealed again
		b := slices.Clone(good)
		change(b)
		return b
	}
	length := func(n int) []byte { return raw(func(b []byte) { binary.LittleEndian.PutUint16(b[16:], uint16(n)) }) }
	flip := func(at int) func(bit int) []byte {
		return func(bit int) []byte { return a.edited(func(b []byte) { b[at+bit/8] ^= 1 << (bit % 8) }) }
	}
	header := func(change func(h *arctic.Header)) []byte {
		return a.compose(func(h *arctic.Header, _ *arctic.PacketHeader) { change(h) })
	}
	packet := func(change func(p *arctic.PacketHeader)) []byte {
		return a.compose(func(_ *arctic.Header, p *arctic.PacketHeader) { change(p) })
	}
	const first = arctic.HeaderSize // of the packet

	return map[string]damage{
		// What the NIC program sees (package bpf, doc.go).
		"cut inside the header": {"nic.short", bits(arctic.EthernetSize, arctic.HeaderSize, func(n int) []byte {
			return good[:n]
		})},
		"cut after the header": {"nic.bad_length", bits(arctic.HeaderSize, len(good), func(n int) []byte {
			return good[:n]
		})},
		"version": {"nic.bad_version", [][]byte{
			raw(func(b []byte) { b[14] = 1 }), raw(func(b []byte) { b[14] = arctic.Version - 1 }),
			// 255 is a hello
			raw(func(b []byte) { b[14] = arctic.Version + 1 }), raw(func(b []byte) { b[14] = 254 })}},
		"length below the header's": {"nic.bad_length", [][]byte{length(0), length(1), length(65)}},
		"length beyond the frame": {"nic.bad_length",
			[][]byte{length(len(good) - 14 + 1), length(1500), length(65535)}},
		"group of more than 11 bits": {"nic.bad_gid", bits(11, 16, flip(18))},
		"a probe":                    {"nic.pass", [][]byte{raw(func(b []byte) { b[14] = 0 })}},
		"another EtherType": {"nic.pass", [][]byte{raw(func(b []byte) { b[12] = 0x08 }),
			raw(func(b []byte) { b[13] = 0xb6 })}},

		// What the card sees (package arctic, doc.go).
		"checksum, each bit of it": {"engine.dropped_checksum",
			bits(0, 32, func(bit int) []byte { return raw(func(b []byte) { b[76+bit/8] ^= 1 << (bit % 8) }) })},
		"checksum, each other byte": {"engine.dropped_checksum",
			slices.DeleteFunc(bits(20, len(good), func(at int) []byte { return raw(func(b []byte) { b[at] ^= 0x10 }) }),
				// but the cards, which are looked at before
				func(b []byte) bool { return [4]byte(b[24:28]) != [4]byte(good[24:28]) })},
		"length within the frame": {"engine.dropped_checksum", [][]byte{length(66), length(len(good) - 14 - 1)}},
		"flags that nothing is": {"engine.dropped_reserved_bits",
			slices.Concat(bits(5, 6, flip(15)), bits(7, 8, flip(15)))},
		"route of more than 30 bits": {"engine.dropped_reserved_bits", bits(30, 32, flip(20))},
		"tag of a frame without packets": {"engine.dropped_reserved_bits", bits(0, 64, func(bit int) []byte {
			b := a.withReject(func([]byte) {})
			b[atTag+bit/8] ^= 1 << (bit % 8)
			arctic.Seal(b, len(b))
			return b
		})},
		"reserved bytes of a reject": {"engine.dropped_reserved_bits", bits(0, 16, func(bit int) []byte {
			return a.withReject(func(e []byte) { e[6+bit/8] ^= 1 << (bit % 8) })
		})},
		"level of a reject": {"engine.dropped_reserved_bits",
			bits(1, 8, func(bit int) []byte { return a.withReject(func(e []byte) { e[4] ^= 1 << bit }) })},
		"reason of a reject": {"engine.dropped_reserved_bits", [][]byte{
			a.withReject(func(e []byte) { e[5] = 0 }), a.withReject(func(e []byte) { e[5] = 128 }),
			a.withReject(func(e []byte) { e[5] = 255 })}},
		"bytes after the last packet": {"engine.dropped_length", [][]byte{
			func() []byte { b := append(slices.Clone(good), 0, 0, 0, 0); arctic.Seal(b, len(b)); return b }(),
			a.edited(func(b []byte) { b[28] = 0 })}},
		"fewer packets than it says": {"engine.dropped_bad_train", [][]byte{
			a.edited(func(b []byte) { b[28] = 2 }), a.edited(func(b []byte) { b[28] = 64 }),
			func() []byte { b := slices.Clone(good[:first]); arctic.Seal(b, first); return b }()}},
		"more packets or rejects than a frame has": {"engine.dropped_bad_train", [][]byte{
			a.edited(func(b []byte) { b[28] = 65 }), a.edited(func(b []byte) { b[28] = 255 }),
			a.edited(func(b []byte) { b[29] = 33 })}},
		"block that its packet does not name": {"engine.dropped_bad_train", bits(3, 4, flip(15))},
		"greeting with packets": {"engine.dropped_bad_train",
			[][]byte{header(func(h *arctic.Header) { h.Hello = true })}},
		"packet of 22 words up": {"engine.dropped_bad_train",
			bits(22, 32, func(n int) []byte {
				return a.edited(func(b []byte) { b[first+6] = b[first+6]&^31 | byte(n) })
			})},
		"packet of another level, group or route": {"engine.dropped_bad_train", [][]byte{
			packet(func(p *arctic.PacketHeader) { p.Level = arctic.Request }),
			packet(func(p *arctic.PacketHeader) { p.GID = foreignGroup }),
			packet(func(p *arctic.PacketHeader) { p.Route = 2 })}},

		// What is not what it says it is (engine, preprocess.go).
		"card that is no peer": {"engine.dropped_unknown_card", [][]byte{
			header(func(h *arctic.Header) { h.SourceCard = 1 }), header(func(h *arctic.Header) { h.SourceCard = 2 }),
			header(func(h *arctic.Header) { h.SourceCard = 65535 })}},
		"another's Ethernet address": {"engine.dropped_unknown_card", bits(0, 48, func(bit int) []byte {
			return header(func(h *arctic.Header) { h.From[bit/8] ^= 1 << (bit % 8) })
		})},
		"for another card": {"engine.dropped_misrouted",
			[][]byte{header(func(h *arctic.Header) { h.DestinationCard = 0 }),
				header(func(h *arctic.Header) { h.DestinationCard = 9 })}},
		"another epoch": {"engine.stale_incarnation_frames", [][]byte{
			header(func(h *arctic.Header) { h.Epoch++ }), header(func(h *arctic.Header) { h.Epoch ^= 1 << 63 }),
			header(func(h *arctic.Header) { h.Epoch = 0 })}},
		"sealed, where there is no key": {"engine.dropped_not_authentic", bits(4, 5, flip(15))},
	}
}

// forgedNodes sends frames of nodes that the table of routes puts on other hosts, on none,
// or on the victim. They are answered, because the sending card may be genuine and its
// table another, but rejected for good (engine, preprocess.go). Age leaves sequence 0 open.
func (a *attack) forgedNodes() {
	a.t.Helper()
	var frames [][]byte
	for i, node := range []uint16{1, 2, 65535} {
		frames = append(frames, a.compose(func(h *arctic.Header, p *arctic.PacketHeader) {
			h.Sequence, h.Age, p.Source = uint32(10+i), uint16(10+i), node
		}))
	}
	a.rejected("of others' nodes", frames, "engine.frames_rejected_for_source_node")
}

// otherJobs sends frames of a job that has the same GID: of another token, each bit of the
// tag. They are answered and rejected for good, and nothing of them is delivered.
func (a *attack) otherJobs() {
	a.t.Helper()
	frames := bits(0, 64, func(bit int) []byte {
		return a.compose(func(h *arctic.Header, _ *arctic.PacketHeader) {
			h.Sequence, h.Age = uint32(20+bit), uint16(20+bit)
			h.Tag ^= 1 << bit
		})
	})
	a.rejected("of another job", frames, "engine.frames_rejected_for_job")
}

// rejected sends frames. Each must be answered, rejected and counted.
func (a *attack) rejected(what string, frames [][]byte, counter string) {
	a.t.Helper()
	moved := a.attacked(frames)
	for _, answer := range []string{"engine.acknowledgment_frames_sent", "engine.frames_sent"} {
		delete(moved, answer)
	}
	n := int64(len(frames))
	want := map[string]int64{"nic.redirected": n, "engine.frames_received": n, counter: n, "engine.packets_rejected": n}
	if !maps.Equal(moved, want) {
		a.t.Errorf("frames %s moved %v, want %v", what, moved, want)
	}
}

// damagedDatagrams sends datagrams that are damaged outside of FUNet's frame, and what the victim
// would take without datagrams.
func (a *attack) damagedDatagrams() {
	a.t.Helper()
	const ip, udp = 14, 34
	good := a.datagram(a.compose(nil))
	change := func(f func(b []byte)) []byte { b := slices.Clone(good); f(b); return b }
	flips := func(from, to int) [][]byte {
		return bits(from*8, to*8, func(bit int) []byte { return change(func(b []byte) { b[bit/8] ^= 1 << (bit % 8) }) })
	}
	plain := a.compose(func(h *arctic.Header, _ *arctic.PacketHeader) { h.From = encap.Address(0) })
	for what, c := range map[string]struct {
		counter string
		frames  [][]byte
	}{
		"IPv4 header, each bit": {"nic.pass", flips(ip, udp)},
		"UDP port, each bit":    {"nic.pass", flips(udp+2, udp+4)},
		"UDP length, each bit":  {"nic.pass", flips(udp+4, udp+6)},
		"UDP checksum":          {"udp.refused", flips(udp+6, udp+8)},
		"source port":           {"udp.refused", flips(udp, udp+2)},
		// The same as damage to a frame, but found by the checksum of UDP.
		"frame, each byte of the packet": {"udp.refused",
			bits(94, len(good), func(at int) []byte { return change(func(b []byte) { b[at] ^= 4 }) })},
		"frame with FUNet's EtherType": {"nic.pass", [][]byte{plain}},
	} {
		before := a.quiet(0)
		for part := range slices.Chunk(c.frames, batch) {
			want := a.server.report()
			seen := want.seen() + uint64(len(part))
			for _, f := range part {
				a.sendAsItIs(f)
			}
			eventually(a.t, "the NIC program has seen the frames", func() bool {
				r := a.server.report()
				return r.seen() >= seen
			})
		}
		want := map[string]int64{c.counter: int64(len(c.frames))}
		if c.counter == "udp.refused" {
			want["nic.redirected"] = int64(len(c.frames))
		}
		if moved := difference(a.t, before, a.quiet(0)); !maps.Equal(moved, want) {
			a.t.Errorf("datagrams damaged in %s moved %v, want %v", what, moved, want)
		}
	}
}

// flatten turns a report into names and numbers.
func flatten(t *testing.T, r memberReport) map[string]int64 {
	t.Helper()
	text, err := json.Marshal(map[string]any{"nic": r.NIC, "engine": r.Engine, "socket": r.Socket,
		"process": r.Process, "udp": r.UDP})
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]map[string]int64
	if err := json.Unmarshal(text, &parts); err != nil {
		t.Fatal(err)
	}
	flat := map[string]int64{}
	for part, counters := range parts {
		for name, n := range counters {
			flat[part+"."+name] = n
		}
	}
	return flat
}

// difference returns the counters that moved, and by how much.
func difference(t *testing.T, before, after memberReport) map[string]int64 {
	t.Helper()
	was, moved := flatten(t, before), map[string]int64{}
	for name, n := range flatten(t, after) {
		// A card that sleeps in poll(2) has the kernel look at its tx ring (xsk_poll). Bytes go
		// with the frames.
		if n != was[name] && name != "socket.TxRingEmpty" && !strings.HasPrefix(name, "engine.frame_bytes_") {
			moved[name] = n - was[name]
		}
	}
	return moved
}

// seen is how many frames the NIC program has looked at.
func (r *memberReport) seen() uint64 {
	c := r.NIC
	return c.Pass + c.Short + c.BadVersion + c.BadLength + c.BadGID + c.Merged + c.ForeignGroup + c.NoSocket + c.Redirected
}

// quiet returns the server's report once the card has looked at every frame that the NIC
// program let through, and nothing has moved for a time.
func (a *attack) quiet(rest time.Duration) (r memberReport) {
	a.t.Helper()
	last := a.server.report()
	eventually(a.t, "the server's counters come to rest", func() bool {
		r = a.server.report()
		since := r
		since.Now = last.Now
		// as difference says: a card that naps looks again and again
		since.Socket.TxRingEmpty = last.Socket.TxRingEmpty
		if since != last {
			last = r
		}
		return since == last && r.Now-last.Now >= rest && r.Engine.FramesReceived+r.UDP.Refused == r.NIC.Redirected
	})
	return r
}

// exchange has client and server exchange messages and waits until everything is
// acknowledged: a card to which something is owed retransmits within engine.Config.MaxRTO.
func (a *attack) exchange(n int) {
	a.t.Helper()
	a.client.tell(fmt.Sprint("exchange ", n))
	a.client.expect("done")
	a.quiet(3 * engine.Native().MaxRTO)
}

// attacked sends frames in batches while nothing else is under way and returns which of
// the server's counters moved.
func (a *attack) attacked(frames [][]byte) map[string]int64 {
	a.t.Helper()
	before := a.quiet(0)
	want := before.seen()
	for part := range slices.Chunk(frames, batch) {
		for _, f := range part {
			a.send(f)
		}
		want += uint64(len(part))
		eventually(a.t, "the NIC program has seen the frames", func() bool {
			r := a.server.report()
			return r.seen() >= want
		})
	}
	return difference(a.t, before, a.quiet(0))
}

// TestForeignGroup: frames of another group, as well formed as any, are dropped in the
// kernel: each is counted as foreign, none wakes the card, none reaches the process
// (design idea 8, bpf doc.go), whether the victim rests or works.
func TestForeignGroup(t *testing.T) {
	long.Test(t)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			a := newAttack(t, way)
			a.exchange(100)

			var frames [][]byte
			for i := range 5000 {
				frames = append(frames, a.compose(func(h *arctic.Header, p *arctic.PacketHeader) {
					// All groups but the own one, the system's too.
					h.GID = uint16(i % 2048)
					if h.GID == ownGroup {
						h.GID = foreignGroup
					}
					p.GID = h.GID
					h.Sequence, h.Hello = uint32(i), false
					h.Level = arctic.Level(i % 2)
					p.Level = h.Level
				}))
			}
			for _, f := range frames {
				if _, err := arctic.Parse(f); err != nil {
					t.Fatalf("a frame of the attacker's is not well formed: %v", err)
				}
			}
			if moved := a.attacked(frames); !maps.Equal(moved,
				map[string]int64{"nic.foreign_group": int64(len(frames))}) {
				t.Errorf("%d frames of foreign groups moved %v", len(frames), moved)
			}

			// The same while the victim exchanges messages with its peer: a few beside each
			// batch, because each waits for both processes to be run.
			before := a.quiet(0)
			exchanges := int64(0)
			want := before.NIC.ForeignGroup
			for part := range slices.Chunk(frames, batch) {
				a.client.tell("exchange 5")
				exchanges += 5
				for _, f := range part {
					a.send(f)
				}
				want += uint64(len(part))
				eventually(t, "the NIC program has seen the frames", func() bool {
					return a.server.report().NIC.ForeignGroup >= want
				})
				a.client.expect("done")
			}
			after := a.quiet(3 * engine.Native().MaxRTO)
			moved := difference(t, before, after)
			for name, n := range map[string]int64{
				"nic.foreign_group": int64(len(frames)), "process.requests": exchanges, "process.wrong": 0,
				"process.unknown": 0, "process.replies": 0,
				"engine.packets_delivered": exchanges, "engine.dropped_foreign_group": 0,
				"engine.frames_received": moved["nic.redirected"],
			} {
				if moved[name] != n {
					t.Errorf("%s moved by %d, want %d", name, moved[name], n)
				}
			}
			for name := range moved {
				if strings.Contains(name, "dropped") || strings.Contains(name, "stale") {
					t.Errorf("%s moved by %d, want 0", name, moved[name])
				}
			}
			a.client.end()
			a.server.end()
		})
	}
}

// TestNobodyElsesFrames: where there is a key, frames that were recorded, changed by a bit, or made
// up by who knows everything but the key, move no counter but those of refusals, and nothing of
// them is delivered: 10^4 of each.
func TestNobodyElsesFrames(t *testing.T) {
	long.Test(t)
	a := newAttack(t, way{mode: xdp.AttachGeneric, key: true})
	a.exchange(300)
	var own [][]byte
	for _, f := range strings.Fields(a.client.report().Frames) {
		b, err := hex.DecodeString(f)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, b)
	}
	if len(own) != 100 {
		t.Fatalf("the client has recorded %d frames, want 100", len(own))
	}
	sealed := 0
	for _, f := range own {
		if g, err := arctic.Look(f); err == nil && g.Sealed() {
			sealed++
		}
	}
	if sealed < 90 {
		t.Fatalf("%d of 100 frames are sealed", sealed)
	}
	random := rand.New(rand.NewPCG(3, 3))
	var frames [][]byte
	for i := range 10_000 {
		f := own[i%len(own)]
		frames = append(frames, f)
		flipped := bytes.Clone(f)
		bit := 8*6 + random.IntN(8*(len(f)-6)) // any but the address that brings it here
		flipped[bit/8] ^= 1 << (bit % 8)
		forged := bytes.Clone(f)
		for range 1 + random.IntN(20) {
			forged[arctic.EthernetSize+random.IntN(len(f)-arctic.EthernetSize)] = byte(random.Uint32())
		}
		forged[14] = arctic.Version
		if forged[15]&0x10 == 0 {
			arctic.Seal(forged, len(forged))
		}
		frames = append(frames, flipped, forged)
	}
	moved := a.attacked(frames)
	refused := int64(0)
	for name, n := range moved {
		switch {
		case strings.HasPrefix(name, "engine.dropped_"), name == "engine.stale_incarnation_frames":
			refused += n
		case strings.HasPrefix(name, "nic."), strings.HasPrefix(name, "engine.frame"),
			strings.HasPrefix(name, "socket."):
		default:
			t.Errorf("%s moved by %d", name, n)
		}
	}
	if moved["engine.frames_sent"] != 0 || refused != moved["engine.frames_received"] || refused < 25_000 {
		t.Errorf("%d of %d frames were refused, and %d sent: %v", refused, moved["engine.frames_received"],
			moved["engine.frames_sent"], moved)
	}
	a.exchange(100)
	if r := a.quiet(0); r.Process != (tally{Requests: 400}) {
		t.Errorf("the process received %+v, want 400 requests", r.Process)
	}
	a.client.end()
	a.server.end()
}

// TestDamagedFrames: each kind of damage is counted where it belongs, exactly, and the
// process receives nothing; afterwards the victim works as before.
func TestDamagedFrames(t *testing.T) {
	long.Test(t)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			a := newAttack(t, way)
			a.exchange(100)
			damages := a.damages()
			for _, name := range slices.Sorted(maps.Keys(damages)) {
				d := damages[name]
				n := int64(len(d.frames))
				moved := a.attacked(d.frames)
				want := map[string]int64{d.counter: n}
				if strings.HasPrefix(d.counter, "engine.") {
					want["nic.redirected"], want["engine.frames_received"] = n, n
				}
				// What the card sends in answer is not the matter here.
				for _, answer := range []string{"engine.greetings_sent", "engine.frames_sent", "socket.TxRingEmpty"} {
					delete(moved, answer)
				}
				if !maps.Equal(moved, want) {
					t.Errorf("%s: %d frames moved %v, want %v", name, n, moved, want)
				}
			}
			if way.udp {
				a.damagedDatagrams()
			}
			a.forgedNodes()
			a.otherJobs()
			a.exchange(100)
			if r := a.quiet(0); r.Process != (tally{Requests: 200}) {
				t.Errorf("the process received %+v, want 200 requests", r.Process)
			}
			if r := a.client.report(); r.Process != (tally{Replies: 200}) {
				t.Errorf("the client received %+v, want 200 replies", r.Process)
			}
			// To be sure that it was the damage: without any, the server takes the frame.
			if moved := a.attacked([][]byte{a.compose(nil)}); moved["engine.packets_delivered"] != 1 ||
				moved["process.wrong"]+moved["process.replies"] != 1 {
				t.Errorf("a frame without damage moved %v: it would not have been taken anyway", moved)
			}
			a.client.end()
			a.server.end()
		})
	}
}
