package hello

// This file reads and writes the bytes of a hello; doc.go draws them.

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// Version is the version of every hello (bpf.VersionHello), at the place of other frames'
	// version.
	Version = 255
	// Size is the length of a hello in bytes, from the Ethernet header on. Every MTU that FUNet can
	// use has room for it.
	Size = 120
	// Longest is the length of one that tells a time.
	Longest = Size + 8
	MaxName = 32     // the longest name of a cluster or host in bytes. Longer ones are cut.
	NoQueue = 0xffff // stands for a queue that is not known

	mark   = "FUhello1"
	before = arctic.EthernetSize

	versionAt, wayAt, lengthAt, kindAt, flagsAt = 14, 15, 16, 18, 19
	incarnationAt, sourceAt, destinationAt      = 20, 24, 26
	nonceAt, queueAt, arrivedAt                 = 28, 36, 38
	frameAt, framesAt, encapAt                  = 40, 42, 43
	markAt, crcAt, clusterAt, hostAt            = 44, 52, 56, 88
	timeAt                                      = Size

	cardFlag, discoversFlag, timeFlag = 1, 2, 4
)

// ErrMessage reports bytes that are not a hello.
var ErrMessage = errors.New("not a hello")

// Kind is the kind of a hello.
type Kind uint8

// These are the kinds. Hellos of other kinds are dropped.
const (
	Question Kind = iota + 1
	Answer
	Announcement
	Goodbye
)

// Said describes a card, in its own words.
type Said struct {
	Card        uint16
	Incarnation uint32
	// IsCard is false for an asker that is not a card; then Card and Incarnation say nothing.
	IsCard    bool
	Discovers bool
	FrameSize uint16 // bytes of the longest frame that it sends
	Frames    uint8  // version of FUNet's frames
	Encap     uint8  // 0: Ethernet, 1: UDP
	Cluster   string // "": it has stated none
	Host      string
}

// Message is a hello.
type Message struct {
	Kind Kind
	Way  uint8 // 0 to 15
	Said
	To      uint16 // card
	Nonce   uint64
	Queue   uint16 // that the hello was sent on
	Arrived uint16 // of an answer: that the question came in on
	// Time is the time in nanoseconds by which the sender's groups take turns; 0: it says none.
	Time uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put composes the hello in b and returns its length, Size or with a time Longest. Names are cut to
// MaxName bytes.
func (m *Message) Put(b []byte, to, from [6]byte) int {
	n := Size
	if m.Time != 0 {
		n = Longest
	}
	b = b[:n]
	clear(b)
	copy(b, to[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint16(b[12:], arctic.EtherType)
	b[versionAt], b[wayAt], b[kindAt] = Version, m.Way, byte(m.Kind)
	le := binary.LittleEndian
	le.PutUint16(b[lengthAt:], uint16(n-before))
	if m.IsCard {
		b[flagsAt] |= cardFlag
	}
	if m.Discovers {
		b[flagsAt] |= discoversFlag
	}
	if m.Time != 0 {
		b[flagsAt] |= timeFlag
		le.PutUint64(b[timeAt:], m.Time)
	}
	le.PutUint32(b[incarnationAt:], m.Incarnation)
	le.PutUint16(b[sourceAt:], m.Card)
	le.PutUint16(b[destinationAt:], m.To)
	le.PutUint64(b[nonceAt:], m.Nonce)
	le.PutUint16(b[queueAt:], m.Queue)
	le.PutUint16(b[arrivedAt:], m.Arrived)
	le.PutUint16(b[frameAt:], m.FrameSize)
	b[framesAt], b[encapAt] = m.Frames, m.Encap
	copy(b[markAt:], mark)
	copy(b[clusterAt:clusterAt+MaxName], m.Cluster)
	copy(b[hostAt:hostAt+MaxName], m.Host)
	le.PutUint32(b[crcAt:], sum(b))
	return n
}

// sum returns the checksum of a hello, from offset 14 to the end of b.
func sum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli, b[before:crcAt])
	return crc32.Update(c, castagnoli, b[crcAt+4:])
}

// view is a hello that has been checked, in place.
type view []byte

// check accepts a hello. Any bytes may be given; bytes behind the length are padding.
func check(frame []byte) (view, bool) {
	if len(frame) < Size || frame[versionAt] != Version || binary.BigEndian.Uint16(frame[12:]) != arctic.EtherType ||
		string(frame[markAt:markAt+8]) != mark {
		return nil, false
	}
	n := before + int(binary.LittleEndian.Uint16(frame[lengthAt:]))
	if n < Size || n > len(frame) {
		return nil, false
	}
	b := frame[:n]
	if k := Kind(b[kindAt]); k < Question || k > Goodbye || b[wayAt] > 15 {
		return nil, false
	}
	if binary.LittleEndian.Uint32(b[crcAt:]) != sum(b) {
		return nil, false
	}
	return b, true
}

func (v view) kind() Kind          { return Kind(v[kindAt]) }
func (v view) source() [6]byte     { return [6]byte(v[6:12]) }
func (v view) isCard() bool        { return v[flagsAt]&cardFlag != 0 }
func (v view) discovers() bool     { return v[flagsAt]&discoversFlag != 0 }
func (v view) card() uint16        { return binary.LittleEndian.Uint16(v[sourceAt:]) }
func (v view) incarnation() uint32 { return binary.LittleEndian.Uint32(v[incarnationAt:]) }
func (v view) nonce() uint64       { return binary.LittleEndian.Uint64(v[nonceAt:]) }
func (v view) queue() uint16       { return binary.LittleEndian.Uint16(v[queueAt:]) }
func (v view) arrived() uint16     { return binary.LittleEndian.Uint16(v[arrivedAt:]) }
func (v view) frameSize() uint16   { return binary.LittleEndian.Uint16(v[frameAt:]) }
func (v view) frames() uint8       { return v[framesAt] }
func (v view) encap() uint8        { return v[encapAt] }
func (v view) cluster() []byte     { return named(v[clusterAt : clusterAt+MaxName]) }
func (v view) host() []byte        { return named(v[hostAt : hostAt+MaxName]) }

// time returns the time that the sender tells, or 0.
func (v view) time() uint64 {
	if v[flagsAt]&timeFlag == 0 || len(v) < Longest {
		return 0
	}
	return binary.LittleEndian.Uint64(v[timeAt:])
}

// named returns a field without the zeroes at its end.
func named(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// said returns the sender's description of itself, with names that are safe to print.
func (v view) said() Said {
	return Said{Card: v.card(), Incarnation: v.incarnation(), IsCard: v.isCard(), Discovers: v.discovers(),
		FrameSize: v.frameSize(),
		Frames:    v.frames(), Encap: v.encap(), Cluster: printable(v.cluster()), Host: printable(v.host())}
}

// printable makes a stranger's name safe to print: all but ASCII letters, digits and marks becomes
// a question mark.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == utf8.RuneError {
			return '?'
		}
		return r
	}, string(b))
}

// Parse reads a hello for a caller without a Station, such as package ctl/doctor/probe. Any bytes
// may be given. In names all but ASCII letters, digits and marks is replaced. Errors: ErrMessage.
func Parse(frame []byte) (m Message, from [6]byte, err error) {
	v, ok := check(frame)
	if !ok {
		return m, from, ErrMessage
	}
	return Message{Kind: v.kind(), Way: v[wayAt], Said: v.said(), To: binary.LittleEndian.Uint16(v[destinationAt:]),
		Nonce: v.nonce(), Queue: v.queue(), Arrived: v.arrived(), Time: v.time()}, v.source(), nil
}
