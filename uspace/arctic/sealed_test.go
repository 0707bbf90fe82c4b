package arctic_test

// This file holds the rules of what stands where in a sealed frame.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// sealedFrame makes a frame sealed, by a cipher that turns every bit round, and an authentication
// of ones.
func sealedFrame(f frame, counter uint64, readable bool) []byte {
	b := compose(f)
	n := len(b)
	b = append(b, make([]byte, arctic.SealSize)...)
	_, secret := arctic.BeginSeal(b, n, counter, readable)
	for i := range secret {
		secret[i] = ^secret[i]
	}
	for i := range arctic.SealTagSize {
		secret[:cap(secret)][len(secret)+i] = 1
	}
	return b
}

// Rule: sealing adds SealSize bytes: the length counts them, and the checksum's place has the lower
// half of the counter, the last four bytes the upper half (doc.go). What is between is the content
// and the authentication.
func TestSealedLayout(t *testing.T) {
	plain := compose(train(2, 3))
	for _, readable := range []bool{false, true} {
		b := sealedFrame(train(2, 3), 0x1112131421222324, readable)
		if len(b) != len(plain)+20 || binary.LittleEndian.Uint16(b[16:]) != uint16(len(b)-14) || b[15]&0x10 == 0 ||
			b[15]&0x20 != 0 != readable {
			t.Fatalf("a frame of %d bytes became one of %d: % x", len(plain), len(b), b)
		}
		if binary.LittleEndian.Uint32(b[76:]) != 0x21222324 || binary.LittleEndian.Uint32(b[len(b)-4:]) != 0x11121314 {
			t.Fatalf("the counter is not where doc.go has it: % x", b)
		}
		if !bytes.Equal(b[len(b)-20:len(b)-4], bytes.Repeat([]byte{1}, 16)) ||
			bytes.Equal(b[80:len(plain)], plain[80:]) != readable {
			t.Fatalf("content and authentication are not where doc.go has them: % x", b)
		}
	}
}

// Rule: what BeginSeal hides SealParts finds again, for whatever frame, and the parts are all of it
// but the upper half of the counter, which the nonce authenticates; Opened gives the frame that was
// sealed (SealParts, Opened). Padding is no part.
func TestSealedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFrame(t)
		want.Header.Defer = false
		want.Header.Hello, want.Greeting, want.MAC = false, arctic.Greeting{}, [arctic.MACSize]byte{}
		counter, readable := rapid.Uint64().Draw(t, "counter"), rapid.Bool().Draw(t, "readable")
		b := append(sealedFrame(want, counter, readable), rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "padding")...)
		if _, err := arctic.Parse(b); !errors.Is(err, arctic.ErrSealed) {
			t.Fatalf("Parse: %v, want %v", err, arctic.ErrSealed)
		}
		f, err := arctic.Look(b)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := f.Counter()
		if !ok || got != counter || f.Readable() != readable || !f.Sealed() {
			t.Fatalf("counter %#x %v, want %#x", got, ok, counter)
		}
		header, secret := f.SealParts()
		if len(header)+len(secret) != len(f)-arctic.EthernetSize-4 || cap(header) != len(header) ||
			cap(secret) != len(secret) {
			t.Fatalf("parts of %d and %d bytes of a frame of %d", len(header), len(secret), len(f))
		}
		for i := range len(secret) - arctic.SealTagSize {
			secret[i] = ^secret[i]
		}
		opened, err := f.Opened()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "frame", want, takeApart(opened))
	})
}

// Rule: a frame too short for what sealing adds has no counter, and one that is malformed inside is
// refused for that when it has been opened.
func TestSealedRefuses(t *testing.T) {
	short := resize(compose(frame{}), 99)
	short[15] |= 0x10
	f, err := arctic.Look(short)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Counter(); ok {
		t.Fatal("a frame of 99 bytes has a counter")
	}
	for _, d := range append(refusals(), blockRefusals()...) {
		if len(d.b) < 80 || errors.Is(d.want, arctic.ErrVersion) || errors.Is(d.want, arctic.ErrForeign) ||
			errors.Is(d.want, arctic.ErrChecksum) ||
			errors.Is(d.want, arctic.ErrSealed) || d.b[15]&0x22 != 0 ||
			int(binary.LittleEndian.Uint16(d.b[16:]))+14 != len(d.b) {
			continue
		}
		b := append(bytes.Clone(d.b), make([]byte, arctic.SealSize)...)
		arctic.BeginSeal(b, len(d.b), 1, true)
		f, err := arctic.Look(b)
		if err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		if opened, err := f.Opened(); !errors.Is(err, d.want) || opened != nil {
			t.Errorf("%s: opened with %v, want %v", d.name, err, d.want)
		}
	}
	greeting := compose(frame{Header: arctic.Header{Hello: true}})
	b := append(greeting, make([]byte, arctic.SealSize)...)
	arctic.BeginSeal(b, len(greeting), 1, true)
	if f, err = arctic.Look(b); err != nil {
		t.Fatal(err)
	}
	if _, err = f.Opened(); !errors.Is(err, arctic.ErrFlags) {
		t.Errorf("a sealed greeting: %v, want %v", err, arctic.ErrFlags)
	}
}

// Rule: a greeting's authentication covers everything that follows the addresses but itself and the
// checksum.
func TestGreetingMACCoversTheFrame(t *testing.T) {
	b := compose(frame{Header: arctic.Header{Hello: true}})
	header, greeting, mac := arctic.GreetingMAC(b)
	if &header[0] != &b[14] || len(header) != 62 || &greeting[0] != &b[80] || len(greeting) != 40 ||
		&mac[0] != &b[120] || len(mac) != 16 || len(b) != 136 {
		t.Fatalf("parts of %d, %d and %d bytes of a frame of %d", len(header), len(greeting), len(mac), len(b))
	}
}
