// This file tests the rule that doc.go draws: frames around each of its edges, and random frames
// against a second statement of the rule in Go.

package bpf

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestOutcomes: every outcome and both sides of every edge of the rule in doc.go.
func TestOutcomes(t *testing.T) {
	n := loadNIC(t, 1, 0)
	largest := 3500 // bytes: BPF_PROG_TEST_RUN takes one page less its headroom and tailroom
	for _, test := range []struct {
		name  string
		frame []byte
		want  Counters
	}{
		{"ours", makeFrame(200), redirected},
		{"ours without packets", makeFrame(80), redirected},
		{"ours, largest", makeFrame(largest), redirected},
		{"greatest GID", makeFrame(200, gid(2047)), redirected},
		{"fields that are not the program's business", makeFrame(200, ones), redirected},

		{"IPv4", makeFrame(200, etherType(0x0800)), pass},
		{"ARP of 42 bytes", makeFrame(42, etherType(0x0806)), pass},
		{"VLAN tag", tagged(makeFrame(200)), pass},
		{"priority tag 802.1ad", makeFrame(200, etherType(0x88a8)), pass},
		{"EtherType one less", makeFrame(200, etherType(EtherType-1)), pass},
		{"EtherType one more", makeFrame(200, etherType(EtherType+1)), pass},
		{"EtherType in the wrong byte order", makeFrame(200, etherType(0xb588)), pass},
		{"802.3 length in place of an EtherType", makeFrame(200, etherType(100)), pass},
		{"foreign runt of 14 bytes", makeFrame(14, etherType(0x0800)), pass},
		{"foreign frame of 79 bytes", makeFrame(79, etherType(0x0800)), pass},
		{"foreign, all else wrong", makeFrame(200, etherType(0x0800), version(0), length(0), gid(0xffff)), pass},

		{"ours of 14 bytes", makeFrame(14), short},
		{"ours of 15 bytes", makeFrame(15), short},
		{"ours of 20 bytes, all fields that are read", makeFrame(20), short},
		{"ours of 60 bytes, the Ethernet minimum", makeFrame(60), short},
		{"ours of 79 bytes", makeFrame(79), short},
		{"short before version", makeFrame(79, version(1)), short},

		{"version 0, a probe", makeFrame(200, version(0)), pass},
		{"a probe, all else wrong", makeFrame(200, version(0), length(0), gid(0xffff)), pass},
		{"short before probe", makeFrame(79, version(0)), short},
		{"version 1", makeFrame(200, version(1)), badVersion},
		{"version 254", makeFrame(200, version(254)), badVersion},
		{"version 255, a hello", makeFrame(200, version(255)), redirected},
		{"a hello, whatever its group", makeFrame(200, version(255), gid(0xffff)), redirected},
		{"a hello of a foreign group", makeFrame(200, version(255), gid(foreignGroup)), redirected},
		{"a hello longer than its frame", makeFrame(200, version(255), length(187)), badLength},
		{"a hello shorter than a header", makeFrame(200, version(255), length(65)), badLength},
		{"short before hello", makeFrame(79, version(255)), short},
		{"version before length", makeFrame(200, version(1), length(0)), badVersion},

		{"length 0", makeFrame(200, length(0)), badLength},
		{"length 65", makeFrame(200, length(65)), badLength},
		{"length 65 in the smallest frame", makeFrame(80, length(65)), badLength},
		{"length 66, the rest is padding", makeFrame(200, length(66)), redirected},
		{"length 66 in the smallest frame", makeFrame(80, length(66)), redirected},
		{"length 67 in the smallest frame", makeFrame(80, length(67)), badLength},
		{"length one short of the frame", makeFrame(200, length(185)), redirected},
		{"length exactly the frame", makeFrame(200, length(186)), redirected},
		{"length one beyond the frame", makeFrame(200, length(187)), badLength},
		{"length one beyond the largest", makeFrame(largest, length(uint16(largest-13))), badLength},
		{"length 0xffff", makeFrame(200, length(0xffff)), badLength},
		{"length in the wrong byte order", makeFrame(200, length(0xba00)), badLength},
		{"length before GID", makeFrame(200, length(65), gid(0xffff)), badLength},

		{"GID 2048", makeFrame(200, gid(2048)), badGID},
		{"GID 0xffff", makeFrame(200, gid(0xffff)), badGID},
		{"home group with an upper bit", makeFrame(200, gid(homeGroup|0x8000)), badGID},
		{"home group in the wrong byte order", makeFrame(200, gid(homeGroup<<8)), foreign},

		{"foreign group", makeFrame(200, gid(foreignGroup)), foreign},
		{"group 0, never activated", makeFrame(200, gid(0)), foreign},
		{"group before the greatest", makeFrame(200, gid(2046)), foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := run(n, test.frame, test.want, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge states the rule of doc.go a second time, without looking at how the C does it.
func judge(frame []byte, active map[uint16]bool) Counters {
	switch {
	case binary.BigEndian.Uint16(frame[12:]) != 0x88B5:
		return pass
	case len(frame) < 80:
		return short
	case frame[14] == 0:
		return pass
	case frame[14] != 6 && frame[14] != 255:
		return badVersion
	}
	length, gid := int(frame[17])<<8|int(frame[16]), uint16(frame[19])<<8|uint16(frame[18])
	switch {
	case length < 66, 14+length > len(frame):
		return badLength
	case frame[14] == 255:
		return redirected
	case gid>>11 != 0:
		return badGID
	case !active[gid]:
		return foreign
	}
	return redirected
}

// TestRandomFrames: on any bytes the program and the oracle agree. Fields are drawn near their
// edges as often as from everything, or few frames would get past the version.
func TestRandomFrames(t *testing.T) {
	n := loadNIC(t, 1, 0)
	active := map[uint16]bool{homeGroup: true, lastGroup: true}
	seen := map[Counters]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			frame := drawFrame(t)
			want := judge(frame, active)
			seen[want]++
			if err := run(n, frame, want, nil); err != nil {
				t.Fatalf("%v\nframe %x", err, frame)
			}
		}
	})
	for _, outcome := range []Counters{pass, short, badVersion, badLength, badGID, foreign, redirected} {
		if seen[outcome] == 0 {
			t.Errorf("no random frame had the outcome %+v: the generator is too narrow", outcome)
		}
	}
}

func drawFrame(t *rapid.T) []byte {
	size := rapid.OneOf(rapid.IntRange(14, 100), rapid.IntRange(80, 300)).Draw(t, "size")
	frame := make([]byte, max(size, FrameMin))
	// the bytes of the body: one draw for all keeps the search fast
	seed := rapid.Uint64().Draw(t, "seed")
	for i := range frame {
		seed = seed*6364136223846793005 + 1442695040888963407 // Knuth, MMIX
		frame[i] = byte(seed >> 56)
	}
	sometimes := func(name string, edge *rapid.Generator[uint16], put func(uint16)) {
		if rapid.IntRange(0, 7).Draw(t, name+" from its edges") != 0 {
			put(edge.Draw(t, name))
		}
	}
	sometimes("ethertype", rapid.Just(uint16(EtherType)), func(v uint16) { etherType(v)(frame) })
	sometimes("version", rapid.SampledFrom([]uint16{Version, Version, VersionHello}), func(v uint16) {
		version(uint8(v))(frame)
	})
	sometimes("length", rapid.OneOf(rapid.Uint16Range(56, 60),
		rapid.Uint16Range(uint16(max(size, 16))-16, uint16(size)-12)),
		func(v uint16) { length(v)(frame) })
	sometimes("gid", rapid.SampledFrom([]uint16{homeGroup, homeGroup, lastGroup, foreignGroup, 0, 2048, 0xffff}),
		func(v uint16) { gid(v)(frame) })
	return frame[:size]
}
