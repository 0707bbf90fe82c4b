package arctic_test

// This file compares one frame with its bytes, written out by hand from the
// layout in doc.go. Its checksum was computed bit by bit, without Go's hash/crc32.

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// goldenHex has one field of doc.go's tables a line, in their order.
const goldenHex = `
02a0a1a2a3a4      0 destination address
02b0b1b2b3b4      6 source address
88b5             12 EtherType, network order
06               14 version
05               15 flags: level reply (1), bye (4)
7200             16 length: 128 - 14 = 114
a305             18 GID 0x5a3
01efcd2b         20 route 0x2bcdef01
0201             24 source card 0x0102
0403             26 destination card 0x0304
02               28 packets
01               29 rejects
0605             30 age 0x0506
1413121124232221 32 epoch 0x2122232411121314
34333231         40 sequence 0x31323334
44434241         44 request acknowledgment 0x41424344
5857565554535251 48 request selective bits 0x5152535455565758
64636261         56 reply acknowledgment 0x61626364
7877767574737271 60 reply selective bits 0x7172737475767778
8887868584838281 68 tag 0x8182838485868788
670d284d         76 CRC-32C 0x4d280d67
0d0c0b0a         80 reject: sequence 0x0a0b0c0d
00               84 level request
01               85 reason queue full
0000             86 zero
0500000000000080 88 bits 0, 2 and 63
01efcdab         96 word 0: P 1, K2 0, route 0x2bcdef01
341260b4        100 word 1: GID 0x5a3, length 0, destination 0x1234
7856ff01        104 word 2: K1:K0 0, type 0x1ff, source 0x5678
01efcdeb        108 word 0: P 1, K2 1, route 0x2bcdef01
341262b4        112 word 1: GID 0x5a3, length 2, destination 0x1234
7856bc6a        116 word 2: K1:K0 1, type 0x2abc, source 0x5678
11223344        120 payload word 0, 0x44332211
55667788        124 payload word 1, 0x88776655`

func golden() []byte { return unhex(goldenHex) }

// unhex reads the first column of every line but the first.
func unhex(lines string) []byte {
	var b []byte
	for _, line := range strings.Split(lines, "\n")[1:] {
		field, err := hex.DecodeString(strings.Fields(line)[0])
		if err != nil {
			panic(err)
		}
		b = append(b, field...)
	}
	return b
}

func goldenFrame() frame {
	first := arctic.PacketHeader{
		Level: arctic.Reply, Kind: arctic.KindMessage, Route: 0x2bcdef01, GID: 0x5a3,
		Length: 0, Type: 0x1ff, Destination: 0x1234, Source: 0x5678,
	}
	second := first
	second.Kind, second.Length, second.Type = arctic.KindMulticast, 2, 0x2abc
	return frame{
		Header: arctic.Header{
			To: [6]byte{0x02, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4}, From: [6]byte{0x02, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4},
			Level: arctic.Reply, Bye: true, GID: 0x5a3, Route: 0x2bcdef01,
			SourceCard: 0x0102, DestinationCard: 0x0304,
			Epoch:    0x2122232411121314,
			Sequence: 0x31323334, Age: 0x0506,
			Acks:      [arctic.Levels]uint32{arctic.Request: 0x41424344, arctic.Reply: 0x61626364},
			Selective: [arctic.Levels]uint64{arctic.Request: 0x5152535455565758, arctic.Reply: 0x7172737475767778},
			Tag:       0x8182838485868788,
		},
		Rejects: []arctic.Reject{{Sequence: 0x0a0b0c0d, Level: arctic.Request, Reason: arctic.ReasonQueueFull,
			Bits: 1<<63 | 1<<2 | 1<<0}},
		Packets: []packet{
			{Header: first, Payload: []byte{}},
			{Header: second, Payload: []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}},
		},
	}
}

// Rule: every field is encoded at the offset, in the width and in the byte order
// of doc.go's tables; packets as thesis 5.2.2 and 5.4 order their header.
func TestGoldenEncode(t *testing.T) {
	got, want := compose(goldenFrame()), golden()
	if !bytes.Equal(got, want) {
		t.Fatalf("encoded\n% x, want\n% x", got, want)
	}
}

// Rule: the same tables hold for decoding (doc.go).
func TestGoldenDecode(t *testing.T) {
	f := mustParse(t, golden())
	same(t, "golden frame", goldenFrame(), takeApart(f))
	_, rest := arctic.Next(f.Train())
	second, rest := arctic.Next(rest)
	if len(rest) != 0 || second.Word(0) != 0x44332211 || second.Word(1) != 0x88776655 {
		t.Fatalf("payload words %#x and %#x with %d bytes behind, want 0x44332211, 0x88776655 and 0", second.Word(0),
			second.Word(1), len(rest))
	}
}
