package launch

// This file tests when a host is taken for dead.

import (
	"io"
	"os"
	"testing"
	"time"
)

// TestPulse: a host is silent if the launcher listened for the whole timeout and the host said
// nothing. A host is not silent while it says anything, an agent's sign of life or a piece of a
// long line. Nor is it silent while the launcher does not listen.
func TestPulse(t *testing.T) {
	const timeout = 100 * time.Millisecond
	watch := func(p *pulse) (silent chan struct{}, stop func()) {
		silent, ended := make(chan struct{}), make(chan struct{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			p.watch(timeout, ended, func() { close(silent) })
		}()
		return silent, func() { close(ended); <-gone }
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &pulse{from: r}
	silent, stop := watch(p) // nobody listens yet
	select {
	case <-silent:
		t.Error("it was silent while nobody listened")
	case <-time.After(4 * timeout):
	}
	stop()

	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(io.Discard, p)
	}()
	silent, stop = watch(p)
	defer stop()
	<-silent // now that somebody listens
	if _, err := w.Write([]byte("a piece")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	select {
	case <-copied:
	case <-time.After(30 * time.Second):
		t.Fatal("what was written is not read")
	}
	if n := p.heard.Load(); n < 2 {
		t.Fatalf("heard %d times", n)
	}
}
