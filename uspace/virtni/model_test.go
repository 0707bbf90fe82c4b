package virtni_test

// This file compares instructions with a model.

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/virtni"
)

// Rule: instructions that wait for each other do to a window's words what they do to a model, and
// return what the thesis says (section 4.2.3).
func TestInstructionsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ports, memory := manyPorts(t, 2)
		p := ports[0]
		w, err := ports[1].OpenWindow(memory[1][:32], windowOptions)
		if err != nil {
			rt.Fatal(err)
		}
		var model [4]uint64
		did := func(err error) (n virtni.Notification) {
			if err == nil {
				err = p.Wait(&n)
			}
			if err != nil || n.Err != nil || n.Command != virtni.NotifyCompletion {
				rt.Fatalf("%+v, %v", n, err)
			}
			return n
		}
		word := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 2), rapid.SampledFrom([]uint64{1<<64 - 1, 1 << 63}))
		v := func() (*virtni.VCI, *uint64) {
			i := rapid.IntRange(0, len(model)-1).Draw(rt, "word")
			return &virtni.VCI{Target: w.Target(1).At(uint64(8 * i)), Ack: true}, &model[i]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"fast put": func(rt *rapid.T) {
				v, m := v()
				*m = word.Draw(rt, "value")
				v.Words = []uint64{*m}
				did(p.FastPut(v))
			},
			"misaligned put": func(rt *rapid.T) {
				v, m := v()
				v.Words, v.Enable = []uint64{word.Draw(rt, "value")}, rapid.Byte().Draw(rt, "enable")
				for i := range 8 {
					if v.Enable>>i&1 != 0 {
						*m = *m&^(0xff<<(8*i)) | v.Words[0]&(0xff<<(8*i))
					}
				}
				did(p.MisalignedPut(v))
			},
			"fetch and add": func(rt *rapid.T) {
				v, m := v()
				v.Addend = word.Draw(rt, "addend")
				if *m += v.Addend; did(p.FetchAndAdd(v)).Words[0] != *m {
					rt.Fatalf("not the new value %#x", *m)
				}
			},
			"compare and swap": func(rt *rapid.T) {
				v, m := v()
				v.Addend = 1 // which is another instruction's
				v.Compare, v.Swap = word.Draw(rt, "compare"), word.Draw(rt, "swap")
				if rapid.Bool().Draw(rt, "equal") {
					v.Compare = *m
				}
				if *m == v.Compare {
					*m = v.Swap
				}
				if got := did(p.CompareAndSwap(v)).Words[0]; got != *m {
					rt.Fatalf("the result is %#x, and the word is %#x", got, *m)
				}
			},
			"": func(rt *rapid.T) {
				for i, m := range model {
					if got := binary.LittleEndian.Uint64(memory[1][8*i:]); got != m {
						rt.Fatalf("word %d is %#x, want %#x", i, got, m)
					}
				}
			},
		})
	})
}
