package daemon

import (
	"encoding/binary"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// FuzzNotice: whatever a host sends is a notice that composes to the same words, or none; nothing
// panics.
func FuzzNotice(f *testing.F) {
	slot := func(n notice) []byte {
		var s funi.Slot
		n.put(&s, 3)
		b := make([]byte, 0, len(s)*4)
		for _, w := range s {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	f.Add(slot(notice{saysEnded, 1, 2, 3, 4, 5}))
	f.Add(slot(notice{asksLife, arctic.MaxGID, 0xffff, 1<<64 - 1, 1<<32 - 1, 1<<64 - 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again funi.Slot
		for i := range s {
			if len(b) >= 4*i+4 {
				s[i] = binary.LittleEndian.Uint32(b[4*i:])
			}
		}
		n, ok := noticeOf(&s)
		if !ok {
			return
		}
		if n.gid == 0 || n.gid > arctic.MaxGID || n.life == 0 || n.kind < saysEnded || n.kind > asksLife {
			t.Fatalf("%+v is a notice", n)
		}
		n.put(&again, s.Header().Node())
		if again.Header() != s.Header() || [noticeWords]uint32(again.Payload()) != [noticeWords]uint32(s.Payload()) {
			t.Fatalf("%x became %x", s, again)
		}
	})
}
