package funi_test

// This file is the hostile process: it writes any word of the shared memory at
// any time between two calls of the card.

import (
	"encoding/binary"
	"testing"

	"github.com/funet/funet/uspace/funi"
)

// FuzzHostileProcess: whatever the process writes, no call of the card panics, it
// sees at most Q_MASK packets pending, and each slot lies in the queue memory
// (doc.go: what the card reads is the process's to scribble on). The script is
// taken in groups of seven bytes: what to do, where, and the value.
func FuzzHostileProcess(f *testing.F) {
	group := func(op byte, at uint16, v uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte{op, byte(at), byte(at >> 8)}, v)
	}
	head := uint16(funi.RQSQHead) * 16
	f.Add(byte(1), append(group(0, head, 0xffffffff), group(2, 0, 0)...))
	f.Add(byte(2), append(group(0, uint16(funi.QMask)*16, 0xffff), group(3, 1, 7)...))
	f.Add(byte(3), append(group(1, 5, 0xffffffff), append(group(4, 0, 1), group(5, 0, 3)...)...))
	f.Add(byte(4), append(group(0, 0x440/4, 0x80000000), group(6, 0, 0)...))
	f.Fuzz(func(t *testing.T, size byte, script []byte) {
		slots := 2 << (size % 6)
		// The queue memory is the middle of a larger piece, to see writes beside it.
		const guard = 64
		whole := make([]uint32, guard+queueCount*slots*funi.SlotWords+guard)
		for i := range whole {
			whole[i] = 0x5a5a5a5a
		}
		m := &funi.Memory{Page: new(funi.Page), Queues: whole[guard : len(whole)-guard : len(whole)-guard]}
		if _, err := funi.Initialize(m); err != nil {
			t.Fatal(err)
		}
		c, err := funi.Attach(m)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(script) >= 7; script = script[7:] {
			at, v := binary.LittleEndian.Uint16(script[1:]), binary.LittleEndian.Uint32(script[3:])
			l := funi.Level(at) // also levels that do not exist
			switch script[0] % 8 {
			case 0:
				m.Page[int(at)%len(m.Page)] = v
			case 1:
				m.Queues[int(at)%len(m.Queues)] = v
			case 2:
				if n := c.Pending(l); n < 0 || n >= slots {
					t.Fatalf("%d pending in %d slots", n, slots)
				}
			case 3:
				n := c.Pending(l)
				for i := range n {
					c.Slot(l, i)[v%funi.SlotWords]++ // panics in tests if it were outside
				}
				c.Retire(l, n)
			case 4:
				if s := c.Vacant(l); s != nil {
					for i := range s {
						s[i] = v
					}
					c.Deliver(l)
				}
			case 5:
				c.Publish()
			case 6:
				c.Return(funi.Returned{Word: v})
			case 7:
				c.Store(funi.Register(at), v)
			}
		}
		for i := range guard {
			if whole[i] != 0x5a5a5a5a || whole[len(whole)-1-i] != 0x5a5a5a5a {
				t.Fatal("the card wrote outside the queue memory")
			}
		}
	})
}
