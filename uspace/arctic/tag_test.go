package arctic_test

// This file holds the rules of the tag of a job.

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: every card of a job computes the tag by itself, so it never changes
// (JobTag). The numbers were computed with Python's hmac.
func TestJobTagIsFixed(t *testing.T) {
	zero, count := make([]byte, 32), make([]byte, 32)
	for i := range count {
		count[i] = byte(i)
	}
	for _, c := range []struct {
		token []byte
		gid   uint16
		want  uint64
	}{
		{zero, 0, 0x5dac049d64148c1f}, {zero, 1, 0xcffa8e0837dc5562},
		{count, 1, 0x7fac58375aa78f93}, {count, 0x5a3, 0xe1f4aafd2d3f2159}, {count, 2047, 0x801675391b51b420},
	} {
		if got := arctic.JobTag(c.token, c.gid); got != c.want {
			t.Errorf("tag of token % x and GID %d is %#x, want %#x", c.token, c.gid, got, c.want)
		}
	}
}

// Rule: jobs that differ in token or in GID have tags of their own (JobTag).
func TestJobTagsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SliceOfN(rapid.Byte(), 32, 32)
		gid := rapid.Uint16Range(0, arctic.MaxGID)
		t1, t2, g1, g2 := token.Draw(t, "token"), token.Draw(t, "other token"), gid.Draw(t, "gid"),
			gid.Draw(t, "other gid")
		same := string(t1) == string(t2) && g1 == g2
		if a, b := arctic.JobTag(t1, g1), arctic.JobTag(t2, g2); (a == b) != same {
			t.Fatalf("tags %#x and %#x", a, b)
		}
	})
}

// Rule: the tag has eight bytes of its own and all of their values; nothing else in a
// frame with packets depends on it but the checksum (doc.go, offset 68).
func TestTagTravels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := train(1, 1)
		f.Header.Tag = rapid.Uint64().Draw(t, "tag")
		b := compose(f)
		if h := mustParseRapid(t, b).Header(); h.Tag != f.Header.Tag {
			t.Fatalf("tag %#x came back as %#x", f.Header.Tag, h.Tag)
		}
		f.Header.Tag = ^f.Header.Tag
		for i, v := range compose(f) {
			if i >= atTag && i < atTag+12 {
				continue // and the checksum behind it
			}
			if v != b[i] {
				t.Fatalf("byte %d depends on the tag", i)
			}
		}
	})
}

func mustParseRapid(t *rapid.T, b []byte) arctic.Frame {
	f, err := arctic.Parse(b)
	if err != nil {
		t.Fatalf("Parse refused % x: %v", b, err)
	}
	return f
}

// Rule (doc.go, version 7): a direct frame has the tag of its job whatever it carries, one of
// version 6 only with packets.
func TestDirectFramesHaveTheTag(t *testing.T) {
	greeting, rejects := train(0, 0), train(0, 0)
	greeting.Header.Hello, greeting.Greeting = true, arctic.Greeting{Nonce: 1, Incarnation: 1}
	rejects.Rejects = []arctic.Reject{{Sequence: 5, Reason: arctic.ReasonQueueFull, Bits: 1}}
	for name, frame := range map[string]frame{"greeting": greeting, "acknowledgment": train(0, 0), "rejects": rejects,
		"packets": train(2, 1), "block": blockFrame(32)} {
		for version, direct := range map[byte]bool{6: false, 7: true} {
			frame.Header.Tag, frame.Header.Direct = 0x1122334455667788, direct
			b := compose(frame)
			f, err := arctic.Parse(b)
			switch {
			case !direct && len(frame.Packets) == 0:
				if !errors.Is(err, arctic.ErrFlags) {
					t.Errorf("%s of version 6 with a tag: %v, want %v", name, err, arctic.ErrFlags)
				}
			case err != nil:
				t.Errorf("%s of version %d: %v", name, version, err)
			case b[arctic.EthernetSize] != version || f.Direct() != direct || f.Header() != frame.Header:
				t.Errorf("%s has version %d, direct %v, header %+v, want %d and %+v", name, b[arctic.EthernetSize],
					f.Direct(), f.Header(), version, frame.Header)
			}
		}
	}
}
