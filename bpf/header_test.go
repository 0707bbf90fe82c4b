// This file compares the two statements of the wire format: funet.h for the programs in the
// kernel, and the constants, the diagram's offsets and the counters of this package.

package bpf

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/bundle"
	"golang.org/x/sys/unix"
)

func readHeader(t *testing.T) string { return readFile(t, "funet.h") }

// readFile returns a header without its comments.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(text), "")
}

// defines returns the numeric #defines of the header; a value is a number, a name, or a sum.
func defines(t *testing.T, header string) map[string]uint64 {
	t.Helper()
	values := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+)[ \t]+(\S.*)$`).FindAllStringSubmatch(header, -1) {
		var sum uint64
		for term := range strings.SplitSeq(strings.Trim(strings.TrimSpace(m[2]), "()"), "+") {
			term = strings.TrimSpace(term)
			value, known := values[term]
			if !known {
				var err error
				if value, err = strconv.ParseUint(term, 0, 64); err != nil {
					t.Fatalf("#define %s: %v", m[1], err)
				}
			}
			sum += value
		}
		values[m[1]] = sum
	}
	return values
}

// TestConstants: the numbers of funet.h are those of the package.
func TestConstants(t *testing.T) {
	want := map[string]uint64{
		"FUNET_ETHERTYPE": EtherType,

		"FUNET_ETHERTYPE_VLAN": unix.ETH_P_8021Q,
		"FUNET_ETHERTYPE_IPV4": unix.ETH_P_IP,
		"FUNET_ETHERTYPE_IPV6": unix.ETH_P_IPV6,
		"FUNET_PROTOCOL_UDP":   unix.IPPROTO_UDP,

		"FUNET_VERSION":        Version,
		"FUNET_VERSION_BUNDLE": arctic.VersionBundle,
		"FUNET_VERSION_DIRECT": VersionDirect,
		"FUNET_VERSION_PROBE":  VersionProbe,
		"FUNET_VERSION_HELLO":  VersionHello,
		"FUNET_ETHERNET_LEN":   14,
		"FUNET_HEADER_LEN":     FrameMin - 14,
		"FUNET_FRAME_MIN":      FrameMin,
		"FUNET_GROUPS":         Groups,
		"FUNET_FLAG_REPLY":     0x01,
		"FUNET_FLAG_BLOCK":     0x08,
		"FUNET_FLAG_DEFER":     0x40,
		"FUNET_SOCKETS":        64,
		"FUNET_ADDRESSES":      MaxAddresses,

		"FUNET_COUNTED_QUEUES": CountedQueues,
	}
	if diff := cmp.Diff(want, defines(t, readHeader(t))); diff != "" {
		t.Errorf("funet.h defines otherwise (-Go +C):\n%s", diff)
	}
}

// TestBundleConstants: the numbers of bundle.h are those of the cards.
func TestBundleConstants(t *testing.T) {
	want := map[string]uint64{
		"FUNET_HUB_ROUTES": 0x0f, "FUNET_BUNDLE_FRAMES": arctic.MaxBundled, "FUNET_BUNDLE_MAX": 4096,
		"FUNET_BUNDLED_LONGEST": bundle.Longest,
	}
	if diff := cmp.Diff(want, defines(t, readFile(t, "bundle.h"))); diff != "" {
		t.Errorf("bundle.h defines otherwise (-Go +C):\n%s", diff)
	}
}

// TestHeaderLayout: every field of struct funet_header stands where the diagram of doc.go has it.
func TestHeaderLayout(t *testing.T) {
	type field struct {
		Name         string
		Offset, Size int
	}
	want := []field{
		{"destination_mac", 0, 6}, {"source_mac", 6, 6}, {"ethertype", offsetEtherType, 2},
		{"version", offsetVersion, 1}, {"flags", 15, 1}, {"length", offsetLength, 2}, {"gid", offsetGID, 2},
		{"route", 20, 4}, {"source_card", 24, 2}, {"destination_card", 26, 2},
		{"packets", 28, 1}, {"rejects", 29, 1}, {"age", 30, 2},
		{"epoch", 32, 8}, {"sequence", 40, 4},
		{"request_ack", 44, 4}, {"request_ack_mask", 48, 8},
		{"reply_ack", 56, 4}, {"reply_ack_mask", 60, 8}, {"tag", 68, 8}, {"crc32c", 76, 4},
	}
	body := regexp.MustCompile(`(?s)struct funet_header \{(.*?)\} __attribute__\(\(packed, aligned\(4\)\)\);`).
		FindStringSubmatch(readHeader(t))
	if body == nil {
		t.Fatal("funet.h has no packed struct funet_header")
	}
	var got []field
	offset := 0
	for line := range strings.SplitSeq(strings.TrimSpace(body[1]), "\n") {
		m := regexp.MustCompile(`^__u(8|16|32|64) (\w+)(?:\[(\d+)\])?;$`).FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("funet.h: field %q is of no fixed width", line)
		}
		bits, _ := strconv.Atoi(m[1])
		count, err := strconv.Atoi(m[3])
		if err != nil {
			count = 1
		}
		got = append(got, field{m[2], offset, bits / 8 * count})
		offset += bits / 8 * count
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("struct funet_header is otherwise (-diagram +C):\n%s", diff)
	}
	if offset != FrameMin {
		t.Errorf("struct funet_header has %d bytes, want %d", offset, FrameMin)
	}
}

// TestCounterNames: enum funet_counter, the fields of Counters, their JSON names and the keys
// under which they are read are in one order and have one set of names.
func TestCounterNames(t *testing.T) {
	body := regexp.MustCompile(`(?s)enum funet_counter \{(.*?)\}`).FindStringSubmatch(readHeader(t))
	if body == nil {
		t.Fatal("funet.h has no enum funet_counter")
	}
	var names []string
	for name := range strings.SplitSeq(body[1], ",") {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "FUNET_COUNT_") {
			names = append(names, strings.ToLower(strings.TrimPrefix(name, "FUNET_COUNT_")))
		}
	}
	var c Counters
	value := reflect.ValueOf(&c).Elem()
	var tags []string
	for i := range value.NumField() {
		tags = append(tags, value.Type().Field(i).Tag.Get("json"))
		if i < len(c.fields()) && value.Field(i).Addr().Interface().(*uint64) != c.fields()[i] {
			t.Errorf("field %d of Counters is not the one read from key %d", i, i)
		}
	}
	if diff := cmp.Diff(names, tags); diff != "" {
		t.Errorf("counters (-funet.h +Go):\n%s", diff)
	}
	if len(c.fields()) != len(names) {
		t.Errorf("%d counters are read, the program has %d", len(c.fields()), len(names))
	}
}

// TestCompiled: both committed objects hold both programs, and maps of the sizes that Go relies on.
// The big-endian object swaps FUNet's length and GID, of a direct frame the tag, the GID and the
// two cards, and of a deferral the source card, the route and the checksum. It reads the fields of
// IP and UDP, which are in network order, as they are. The little-endian object swaps the port,
// five fields of IP and UDP, and a tag, and none of FUNet's fields. A little-endian host cannot run
// the big-endian object: the number of its swaps is as much as it can show.
func TestCompiled(t *testing.T) {
	for file, wantSwaps := range map[string]int{"nic_bpfel.o": 7, "nic_bpfeb.o": 10} {
		spec, err := ebpf.LoadCollectionSpec(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var c Counters
		for name, want := range map[string]struct {
			kind  ebpf.MapType
			value uint32
			size  uint32
		}{
			"funet_groups":   {ebpf.Array, 1, Groups},
			"funet_sockets":  {ebpf.XSKMap, 4, 64},
			"funet_counters": {ebpf.PerCPUArray, 8 * uint32(len(c.fields())-1+CountedQueues), 1},
			// Its key is an address.
			"funet_addresses": {ebpf.Hash, 1, MaxAddresses},
		} {
			m, key := spec.Maps[name], uint32(4)
			if want.kind == ebpf.Hash {
				key = 16
			}
			if m == nil || m.Type != want.kind || m.KeySize != key || m.ValueSize != want.value ||
				m.MaxEntries != want.size {
				t.Errorf("%s: map %s is %v", file, name, m)
			}
		}
		for name, flags := range map[string]uint32{"funet_nic": 0, "funet_nic_frags": unix.BPF_F_XDP_HAS_FRAGS} {
			program := spec.Programs[name]
			if program == nil || program.Type != ebpf.XDP || program.License != "Dual BSD/GPL" ||
				program.Flags != flags {
				t.Fatalf("%s: program %s is %v", file, name, program)
			}
			swaps := 0
			for _, instruction := range program.Instructions {
				if op := instruction.OpCode; op.Class().IsALU() && op.ALUOp() == asm.Swap {
					swaps++
				}
			}
			if swaps != wantSwaps {
				t.Errorf("%s: %s: %d byte swaps, want %d", file, name, swaps, wantSwaps)
			}
		}
	}
}
