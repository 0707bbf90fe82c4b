package ports

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
)

// Rule (spare.go): the next ports of an account have the pairs of those that are gone, and carry
// its messages; another account has none of them. Few are kept.
func TestPairsAreUsedAgain(t *testing.T) {
	long.Test(t)
	inBothModes(t, testPairsAreUsedAgain)
}

func testPairsAreUsedAgain(t *testing.T, mode xdp.AttachMode) {
	b := newBed(t, 2*mostSpares, 2*mostSpares, mode)
	until := time.Now().Add(patience)
	for again := false; !again; { // the kernel lets go of a socket some time after it was closed
		before := len(b.pairs())
		ids := [2]Made{}
		memories := [2]*os.File{memory(t), memory(t)}
		for node := range ids {
			var err error
			if ids[node], err = b.make(0, uint16(node), memories[node]); err != nil {
				t.Fatal(err)
			}
		}
		again = before > 0 && len(b.pairs()) == before
		exchange(t, ids, memories)
		for _, m := range ids {
			b.gone(m)
		}
		if time.Now().After(until) {
			t.Fatalf("no pair is used again of %v", b.pairs())
		}
	}
	first := len(b.pairs())
	m, err := b.makeFor(0, 0, 2, memory(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b.pairs()); n != first+1 {
		t.Errorf("there are %d pairs when another account has one", n)
	}
	var all []Made
	for node := range mostSpares + 1 {
		m, err := b.make(0, uint16(node+1), memory(t))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range append(all, m) {
		if err := unix.Close(m.FD); err != nil {
			t.Error(err)
		}
		b.gone(m)
	}
	for len(b.pairs()) > mostSpares+1 {
		if time.Now().After(until) {
			t.Fatalf("there are %d pairs", len(b.pairs()))
		}
	}
	all = nil
	for node := range 2 * mostSpares { // the other account's goes, too, when there is need
		m, err := b.make(0, uint16(node), memory(t))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		if err := unix.Close(m.FD); err != nil {
			t.Error(err)
		}
	}
}

// pairs lists the outer ends on host 0, in order.
func (b *bed) pairs() []string {
	b.t.Helper()
	names := slices.DeleteFunc(b.linkNames(0), func(n string) bool { return !strings.HasPrefix(n, "fup") })
	slices.Sort(names)
	return names
}

// gone ends a port on host 0 whose process has closed it, and waits until it is gone.
func (b *bed) gone(m Made) {
	b.t.Helper()
	if _, err := b.hosts[0].End(m.ID); err != nil {
		b.t.Fatal(err)
	}
	until := time.Now().Add(patience)
	for gone := false; !gone; {
		var err error
		if gone, _, err = b.hosts[0].Gone(m.ID); err != nil || time.Now().After(until) {
			b.t.Fatalf("gone %v, %v", gone, err)
		}
	}
}

// exchange has two processes send each other messages, and close their ports.
func exchange(t *testing.T, made [2]Made, memories [2]*os.File) {
	t.Helper()
	opened, start, done := make(chan error), make(chan struct{}), make(chan error)
	until := time.Now().Add(patience)
	for node := range made {
		go func() {
			runtime.LockOSThread() // which has lost its capabilities, and ends
			k, err := openCard(made[node], memories[node], uint16(node), len(made))
			opened <- err
			if err != nil {
				return
			}
			<-start
			for i := uint32(0); i < 100 && err == nil; i++ {
				send1(k, uint16(1-node), i)
				var word uint32
				if word, err = receive1(k, until); err == nil && word != i {
					err = fmt.Errorf("message %d to node %d is %d", i, node, word)
				}
			}
			done <- errors.Join(err, k.Close(patience))
		}()
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	close(start)
	for range made {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
