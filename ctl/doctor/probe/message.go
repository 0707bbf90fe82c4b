package probe

// This file defines the messages: a fixed part, then JSON, then zeroes up to the size under test. A
// message follows the EtherType of an Ethernet frame, or is a whole UDP datagram. Numbers are
// little-endian.
//
//	 0  version 0 (1)     1  kind (1)     2  large (1)     3  zero (1)
//	 4  "FUprobe1" (8)   12  nonce (8)   20  Ethernet address of the asker (6)
//	26  IP address of the asker (16)     42  UDP port of the asker (2)
//	44  length of the JSON (2)           46  JSON of an answer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/funet/funet/bpf"
)

const (
	Size = 512 // the length of a short message in bytes. Every MTU that FUNet can use is longer.

	fixedSize = 46
	mostJSON  = Size - fixedSize
	mark      = "FUprobe1"

	request = 1
	answer  = 2
)

var errMessage = errors.New("not a probe")

// Carrier is the means by which a message travels.
type Carrier int

// The carriers.
const (
	Ethernet Carrier = iota
	UDP
	Carriers
)

// Length says how long a message is.
type Length int

// The lengths: Size, and the length that fills the MTU.
const (
	Short Length = iota
	Long
	Lengths
)

// Host is an answerer's description of itself.
type Host struct {
	Name         string           `json:"host"`
	MAC          net.HardwareAddr `json:"-"`
	MTU          int              `json:"mtu"`    // bytes
	FrameVersion int              `json:"frames"` // the version of the frames that its FUNet sends
	// Card is the card of the daemon that answers, or of the answerer's host; nil: none.
	Card *Card `json:"card,omitempty"`
}

// Card is the number of a card and the versions of its daemon.
type Card struct {
	Number      uint16 `json:"number"`
	Incarnation uint32 `json:"incarnation"`
	ABI         uint32 `json:"abi"`
}

type message struct {
	kind  byte
	long  bool
	nonce uint64
	mac   [6]byte    // of the asker
	addr  netip.Addr // of the asker; the zero Addr: it has none
	port  uint16
	said  said // in an answer only
}

type said struct {
	Host
	Address string `json:"mac"`
	// Heard counts the requests with the nonce, by carrier and length.
	Heard [Carriers][Lengths]int `json:"heard"`
}

// encode composes a message of size bytes, at least Size.
func (m *message) encode(size int) ([]byte, error) {
	b := make([]byte, max(size, Size))
	b[0], b[1] = bpf.VersionProbe, m.kind
	if m.long {
		b[2] = 1
	}
	copy(b[4:], mark)
	binary.LittleEndian.PutUint64(b[12:], m.nonce)
	copy(b[20:], m.mac[:])
	if m.addr.IsValid() {
		a := m.addr.As16()
		copy(b[26:], a[:])
	}
	binary.LittleEndian.PutUint16(b[42:], m.port)
	if m.kind == answer {
		said, err := json.Marshal(&m.said)
		if err != nil {
			return nil, err
		}
		if len(said) > mostJSON {
			return nil, fmt.Errorf("composing an answer of %d bytes, at most %d", len(said), mostJSON)
		}
		binary.LittleEndian.PutUint16(b[44:], uint16(len(said)))
		copy(b[fixedSize:], said)
	}
	return b, nil
}

// decode reads a message. b may be any bytes.
func decode(b []byte) (m message, err error) {
	if len(b) < Size || b[0] != bpf.VersionProbe || b[2] > 1 || b[3] != 0 || string(b[4:12]) != mark {
		return m, errMessage
	}
	m.kind, m.long, m.nonce = b[1], b[2] == 1, binary.LittleEndian.Uint64(b[12:])
	copy(m.mac[:], b[20:])
	if a := netip.AddrFrom16([16]byte(b[26:42])).Unmap(); !a.IsUnspecified() {
		m.addr = a
	}
	m.port = binary.LittleEndian.Uint16(b[42:])
	n := int(binary.LittleEndian.Uint16(b[44:]))
	switch {
	case m.kind == request && n == 0:
		return m, nil
	case m.kind != answer || n > mostJSON:
		return m, errMessage
	}
	if err := json.Unmarshal(b[fixedSize:fixedSize+n], &m.said); err != nil {
		return m, errMessage
	}
	if m.said.MAC, err = net.ParseMAC(m.said.Address); err != nil || len(m.said.MAC) != 6 {
		return m, errMessage
	}
	m.said.Name = printable(m.said.Name)
	return m, nil
}

// printable returns those characters of a name from the network that a terminal can show.
func printable(s string) string {
	return string(bytes.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, []byte(s[:min(len(s), 64)])))
}

// unicast reports whether an Ethernet address is that of one card.
func unicast(mac []byte) bool { return mac[0]&1 == 0 && !bytes.Equal(mac, make([]byte, len(mac))) }
