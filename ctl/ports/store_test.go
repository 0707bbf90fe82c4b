package ports

// This file tests what is kept by names and in the ledger (sd_pid_notify_with_fds(3)), and stores
// that are of no use.

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/bpf"
)

// Rule (store.go): a name says its kind and its values, and nothing else is read as one; it has no
// character that the service manager refuses, and is short enough.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Uint64(), 0, 6).Draw(t, "values")
		n := name("pair", want...)
		if len(n) > 255 || strings.ContainsAny(n, ":\n= ") {
			t.Fatalf("%q cannot be a name (FDNAME)", n)
		}
		got := make([]uint64, len(want))
		var to []*uint64
		for i := range got {
			to = append(to, &got[i])
		}
		if !values(n, "pair", to...) || !slices.Equal(got, want) {
			t.Fatalf("%q is read as %v, not %v", n, got, want)
		}
		var one uint64
		if values(n, "pair", append(to, &one)...) || values(n, "port", to...) ||
			len(to) > 0 && values(n, "pair", to[1:]...) {
			t.Fatalf("%q is read as another", n)
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("funet1.port.a", "port")
	f.Add("funet1.pair.1.2.80000", "pair")
	f.Add("funet2.port.1", "port")
	f.Fuzz(func(t *testing.T, n, kind string) {
		var a, b, c uint64
		if values(n, kind, &a, &b, &c) && name(kind, a, b, c) != n {
			// Other digits of the same numbers are the same names: with zeros before them, or
			// capital.
			if !values(name(kind, a, b, c), kind, &a, &b, &c) {
				t.Fatalf("%q is %d %d %d, which is no name", n, a, b, c)
			}
		}
	})
}

// Rule (ledger.go): a record is what was written there, whatever its neighbours are; where nothing
// was there are zeros.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := newLedger()
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		jobs, ports := map[int]jobRecord{}, map[int]portRecord{}
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			at := rapid.SampledFrom([]int{0, 1, 2, 2047, 4095}).Draw(t, "at")
			if at < bpf.Groups && rapid.Bool().Draw(t, "job") {
				jobs[at] = jobRecord{Tag: rapid.Uint64().Draw(t, "tag"), GID: rapid.Uint32().Draw(t, "gid"),
					Nodes: rapid.Uint32().Draw(t, "nodes")}
				r := jobs[at]
				err = l.put(jobAt(at), &r)
			} else {
				r := portRecord{Tag: rapid.Uint64().Draw(t, "tag"), Bytes: rapid.Uint64().Draw(t, "bytes"),
					Number: rapid.Uint64().Draw(t, "number"), ID: rapid.Uint32().Draw(t, "id"),
					Account: rapid.Uint32().Draw(t, "account"), Outer: rapid.Uint32().Draw(t, "outer"), Mode: 2, GID: 7,
					Node: rapid.Uint16().Draw(t, "node")}
				copy(r.Ticket[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ticket"))
				ports[at] = r
				err = l.put(portAt(at), &r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []int{0, 1, 2, 2047, 4095} {
			var j jobRecord
			var p portRecord
			if at < bpf.Groups {
				if err := l.get(jobAt(at), &j); err != nil || j != jobs[at] {
					t.Fatalf("job %d is %+v, not %+v: %v", at, j, jobs[at], err)
				}
			}
			if err := l.get(portAt(at), &p); err != nil || p != ports[at] {
				t.Fatalf("port %d is %+v, not %+v: %v", at, p, ports[at], err)
			}
		}
		var h head
		if err := l.get(0, &h); err != nil || h.Lineage == 0 {
			t.Fatalf("the head is %+v: %v", h, err)
		}
	})
}

// Rule (ErrStore, MakePorts): a store that lacks what a helper needs, or has something else under
// its name, is an error, all of it is given back, and the helper begins anew.
func TestStoreOfNoUse(t *testing.T) {
	l, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	null := func() *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for what, held := range map[string][]string{
		"a port alone":          {"port.1"},
		"no map":                {"ledger", "space"},
		"no namespace":          {"ledger", "map.0", "map.1", "map.2", "map.3", "map.4", "map.5"},
		"what it does not know": {"another"},
		"maps that are none":    {"ledger", "space", "map.0", "map.1", "map.2", "map.3", "map.4", "map.5"},
		"a place beyond the last": {"ledger", "space", "job.ffffff", "map.0", "map.1", "map.2", "map.3",
			"map.4", "map.5"},
	} {
		t.Run(what, func(t *testing.T) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fds[1])
			s := &Store{fd: fds[0], held: map[string]*os.File{}}
			for _, n := range held {
				f := null()
				switch n {
				case "ledger":
					fd, err := unix.Dup(int(l.file.Fd()))
					if err != nil {
						t.Fatal(err)
					}
					f.Close()
					f = os.NewFile(uintptr(fd), n)
				case "space":
					f.Close()
					if f, err = os.Open("/proc/thread-self/ns/net"); err != nil {
						t.Fatal(err)
					}
				}
				s.held[layout+n], s.came = f, append(s.came, layout+n)
			}
			if _, err := New(2, s); !errors.Is(err, ErrStore) {
				t.Fatalf("it is taken: %v", err)
			}
			text, dropped := make([]byte, 512), 0
			for range held {
				n, _, err := unix.Recvfrom(fds[1], text, unix.MSG_DONTWAIT)
				if err == nil && strings.HasPrefix(string(text[:n]), "FDSTOREREMOVE=1\nFDNAME="+layout) {
					dropped++
				}
			}
			if dropped != len(held) || s.has() {
				t.Errorf("%d of %d are given back, and some are there: %v", dropped, len(held), s.has())
			}
			h, err := New(2, s)
			if err != nil {
				t.Fatalf("it does not begin anew: %v", err)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
