package arctic_test

// This file tests the format of bundles: what is put in comes out, and any bytes are taken.

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a bundle has the frames that were put in.
func TestBundle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := rapid.SliceOfN(rapid.Byte(), arctic.HeaderSize, 256)
		frames := rapid.SliceOfN(frame, 2, arctic.MaxBundled).Draw(t, "frames")
		for _, f := range frames {
			f[12], f[13] = 0x88, 0xb5
		}
		copy(frames[0][6:], []byte{2, 0, 0, 0, 0, 1, 0x88, 0xb5})
		b := make([]byte, 4096)
		b = b[:arctic.PutBundle(b, frames)]
		got, ok := arctic.Bundled(nil, b)
		if !ok || !slices.EqualFunc(got, frames, bytes.Equal) {
			t.Fatalf("%d frames, %v; want %d", len(got), ok, len(frames))
		}
		if _, ok := arctic.Bundled(nil, b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); ok {
			t.Fatal("a bundle without its end is a bundle")
		}
		if _, err := arctic.Parse(b); err == nil {
			t.Fatal("a card takes a bundle for a frame")
		}
	})
}

// FuzzBundled: any bytes are refused, or are frames one behind the other.
func FuzzBundled(f *testing.F) {
	b := make([]byte, 400)
	one := make([]byte, 100)
	copy(one[12:], []byte{0x88, 0xb5})
	f.Add(b[:arctic.PutBundle(b, [][]byte{one, one})])
	f.Add([]byte{0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, ok := arctic.Bundled(nil, b)
		n := arctic.BundleHeaderSize
		for _, f := range frames {
			if len(f) < arctic.HeaderSize || !bytes.Equal(f, b[n:n+len(f)]) {
				t.Fatal("a frame is short or elsewhere")
			}
			n += len(f)
		}
		if ok && (len(frames) < 2 || len(frames) > arctic.MaxBundled) {
			t.Fatalf("a bundle of %d frames", len(frames))
		}
	})
}
