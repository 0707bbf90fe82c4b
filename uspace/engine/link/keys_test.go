package link

// This file holds the rules of keys: where they come from, and whom they show themselves to.

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// secretOf is a secret of a test.
func secretOf(i byte) []byte { return bytes.Repeat([]byte{i, 7}, KeySize/2) }

func keyOf(t testing.TB, i byte) *Key {
	t.Helper()
	k, err := NewKey(secretOf(i))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Rule: keys are made by HKDF-SHA256: the test cases 1 to 3 of RFC 5869, appendix A, as keys.go
// calls it.
func TestHKDFVectors(t *testing.T) {
	for i, c := range []struct {
		secret, salt, info string
		n                  int
		extracted, out     string
	}{
		{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9", 42,
			"077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
			"3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
		{hexRange(0x00, 80), hexRange(0x60, 80), hexRange(0xb0, 80), 82,
			"06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
			"b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
		{"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "", 42,
			"19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
			"8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
	} {
		extracted, err := hkdf.Extract(sha256.New, unhex(t, c.secret), unhex(t, c.salt))
		if err != nil || !bytes.Equal(extracted, unhex(t, c.extracted)) {
			t.Errorf("case %d: extracted %x, %v", i+1, extracted, err)
		}
		if out := expand(extracted, string(unhex(t, c.info)), c.n); !bytes.Equal(out, unhex(t, c.out)) {
			t.Errorf("case %d: expanded %x", i+1, out)
		}
	}
}

// hexRange is n bytes that count up from the first.
func hexRange(first, n int) string {
	var b []byte
	for i := range n {
		b = append(b, byte(first+i))
	}
	return hex.EncodeToString(b)
}

// Rule: frames are sealed by AES-256-GCM: test cases 13, 14 and 16 of the specification that NIST
// took over (McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B).
func TestGCMVectors(t *testing.T) {
	for _, c := range []struct{ key, nonce, plain, header, out string }{
		{strings.Repeat("00", 32), strings.Repeat("00", 12), "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
		{strings.Repeat("00", 32), strings.Repeat("00", 12), strings.Repeat("00", 16), "",
			"cea7403d4d606b6e074ec5d3baf39d18 d0d1c8a799996bf0265b98b5d48ab919"},
		{"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
			"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
			"feedfacedeadbeeffeedfacedeadbeefabaddad2",
			"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662 76fc6ece0f4e1768cddf8853bb2d551b"},
	} {
		block, err := aes.NewCipher(unhex(t, c.key))
		if err != nil {
			t.Fatal(err)
		}
		a, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Seal(nil, unhex(t, c.nonce), unhex(t, c.plain), unhex(t, c.header)); !bytes.Equal(got,
			unhex(t, c.out)) {
			t.Errorf("key %s: %x, want %s", c.key, got, c.out)
		}
	}
}

// Rule: a key is 32 bytes, of which not all are zero; nothing else is one.
func TestNewKeyRefuses(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 31), make([]byte, 32), make([]byte, 33), secretOf(1)[:31],
		append(secretOf(1), 1)} {
		if k, err := NewKey(b); !errors.Is(err, ErrKey) || k != nil {
			t.Errorf("%d bytes: %v, %v", len(b), k, err)
		}
	}
}

// Rule: a key shows itself in no format, log or document; only its identity, which both who have it
// find.
func TestKeyShowsNothing(t *testing.T) {
	k := keyOf(t, 0x41)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("key", "key", k)
	document, err := json.Marshal(map[string]any{"key": k})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), fmt.Sprintf("%q", k),
		string(document), logged.String()} {
		for _, hidden := range [][]byte{secretOf(0x41), k.extracted} {
			if strings.Contains(s, string(hidden[:4])) || strings.Contains(s, hex.EncodeToString(hidden[:4])) {
				t.Errorf("it shows itself: %s", s)
			}
		}
		if !strings.Contains(s, fmt.Sprintf("%08x", k.Identity())) {
			t.Errorf("no identity: %s", s)
		}
	}
	if k.Identity() == 0 || k.Identity() != keyOf(t, 0x41).Identity() || k.Identity() == keyOf(t, 0x42).Identity() {
		t.Errorf("identities %x, %x", k.Identity(), keyOf(t, 0x42).Identity())
	}
}

// Rule: an epoch is the same for both cards, not 0, and another where anything of the handshake is
// other; so are the keys of a session, and the two directions have different ones.
func TestHandshakeNamesItsEpoch(t *testing.T) {
	party := rapid.Custom(func(t *rapid.T) Party {
		return Party{Card: rapid.Uint16Range(0, 3).Draw(t, "card"),
			Incarnation: rapid.Uint32Range(1, 3).Draw(t, "incarnation"),
			Nonce:       rapid.Uint64Range(1, 4).Draw(t, "nonce")}
	})
	k := keyOf(t, 1)
	seen := map[uint64][2]Party{}
	rapid.Check(t, func(r *rapid.T) {
		a, b := party.Draw(r, "a"), party.Draw(r, "b")
		if a.Card == b.Card {
			b.Card++
		}
		e := Epoch(a, b)
		if e == 0 || e != Epoch(b, a) {
			r.Fatalf("epoch %x, the other way round %x", e, Epoch(b, a))
		}
		if b.Card < a.Card {
			a, b = b, a
		}
		if was, ok := seen[e]; ok && was != [2]Party{a, b} {
			r.Fatalf("%v and %v have one epoch", was, [2]Party{a, b})
		}
		seen[e] = [2]Party{a, b}
		s, o := k.Session(a, b, 0), k.Session(b, a, 0)
		if !bytes.Equal(s.seal.after, o.open.present.after) || !bytes.Equal(o.seal.after, s.open.present.after) ||
			bytes.Equal(s.seal.after, o.seal.after) {
			r.Fatal("the two ends have other keys, or the same in both directions")
		}
		c := b
		c.Nonce++
		if other := k.Session(a, c, 0); bytes.Equal(other.seal.after, s.seal.after) {
			r.Fatal("another nonce, and the same keys")
		}
	})
}

// greeting is a frame with a greeting.
func greeting() []byte {
	b := make([]byte, 1514)
	h := arctic.Header{Hello: true, SourceCard: 1, DestinationCard: 2, Epoch: 3}
	h.Encode(b)
	return b[:arctic.PutGreeting(b, &arctic.Greeting{Nonce: 1, Echo: 2, Incarnation: 3, Number: 4, Longest: 1514,
		Flags: arctic.Authenticated, Key: 5})]
}

// Rule: a greeting is authenticated by HMAC-SHA256, the first 16 bytes, over bytes 14..75 and
// 80..119; every bit counts, and so does the key.
func TestGreetingAuthenticated(t *testing.T) {
	k := keyOf(t, 1)
	b := greeting()
	k.SignGreeting(b)
	arctic.Seal(b, len(b))
	extracted, _ := hkdf.Extract(sha256.New, secretOf(1), []byte("FUNet link 1"))
	secret, _ := hkdf.Expand(sha256.New, extracted, "FUNet link 1 greeting", 32)
	m := hmac.New(sha256.New, secret)
	m.Write(b[14:76])
	m.Write(b[80:120])
	if !bytes.Equal(b[120:136], m.Sum(nil)[:16]) {
		t.Fatalf("% x is authenticated by % x", b[:120], b[120:])
	}
	f, err := arctic.Parse(b)
	if err != nil || !k.VerifyGreeting(f) || keyOf(t, 2).VerifyGreeting(f) {
		t.Fatalf("%v; its key: %v, another: %v", err, k.VerifyGreeting(f), keyOf(t, 2).VerifyGreeting(f))
	}
	for bit := arctic.EthernetSize * 8; bit < len(b)*8; bit++ {
		if at := bit / 8; at >= 76 && at < 80 {
			continue // the checksum
		}
		f[bit/8] ^= 1 << (bit % 8)
		if k.VerifyGreeting(f) {
			t.Fatalf("authentic with another bit %d", bit)
		}
		f[bit/8] ^= 1 << (bit % 8)
	}
	if k.VerifyGreeting(f[:arctic.HeaderSize]) {
		t.Error("a hello without a greeting is authentic")
	}
	if n := testing.AllocsPerRun(100, func() { k.SignGreeting(b); k.VerifyGreeting(f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Rule (Key.Job): a job's secret is the same on hosts with the same key, and another for each key,
// GID and token; it is none of the key's own.
func TestKeyOfAJob(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, KeySize)
	key := func(b []byte) *Key {
		k, err := NewKey(b)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k, token, other := key(secret), []byte("token"), []byte("Token")
	job := k.Job(7, token)
	if len(job) != KeySize || !bytes.Equal(job, key(secret).Job(7, token)) {
		t.Errorf("%x, and on another host %x", job, key(secret).Job(7, token))
	}
	for what, b := range map[string][]byte{"another GID": k.Job(8, token), "another token": k.Job(7, other),
		"another key": key(job).Job(7, token), "the secret": secret} {
		if bytes.Equal(job, b) {
			t.Errorf("%s gives the same", what)
		}
	}
	if key(job).Identity() == k.Identity() {
		t.Error("it has the identity of the key")
	}
}
