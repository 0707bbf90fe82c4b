package rawxdp

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// The mode chosen is the one with the smallest median; one that does not work says why.
func TestFastestMode(t *testing.T) {
	l := newLab(t)
	// The second call finds the interfaces as the first did.
	for range 2 {
		best, results, err := Fastest(t.Context(), l, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != 3 {
			t.Fatalf("results %+v", results)
		}
		for _, r := range results {
			t.Log(r)
			// veth has no zero-copy.
			if (r.Err != nil) != (r.Bind == xdp.BindZeroCopy) ||
				r.Err != nil && !errors.Is(r.Err, xdp.ErrNotSupported) {
				t.Errorf("%s, %s: %v", r.Attach, r.Bind, r.Err)
			}
			if r.Err != nil {
				continue
			}
			if len(r.Rounds) != rounds || r.P50 != slices.Sorted(slices.Values(r.Rounds))[rounds/2] {
				t.Errorf("%+v", r)
			}
			for _, other := range results {
				if r.Modes == best && other.Err == nil && other.P50 < r.P50 {
					t.Errorf("chose %v with %v us, while %v has %v", best, r.P50, other.Modes, other.P50)
				}
			}
		}
	}
}

// When no mode works, each says why, and no mode is chosen in silence.
func TestNoMode(t *testing.T) {
	l := newLab(t)
	var a *xdp.Attachment
	program, err := xdp.NewRedirectProgram(xdp.RedirectConfig{Queues: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	// A program that is already there stops every mode: the kernel takes one link for each
	// interface and mode, and no native one beside a generic one.
	err = l.Do(1, func() error {
		iface, err := net.InterfaceByName(l.Hosts()[1].Interfaces[0].Name)
		if err != nil {
			return err
		}
		a, err = xdp.Attach(program.Program, iface.Index, xdp.AttachGeneric)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, results, err := Fastest(t.Context(), l, false)
	if !errors.Is(err, ErrNoMode) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	for _, r := range results {
		if r.Err == nil {
			t.Errorf("%+v", r)
		}
	}
	t.Log(err)
}

// The median decides, not the best round; of equals the first is taken.
func TestChoose(t *testing.T) {
	failed := errors.New("failed")
	results := []Mode{
		{Modes: Modes{xdp.AttachGeneric, xdp.BindCopy}, Rounds: []float64{1, 5, 5}},
		{Modes: Modes{xdp.AttachNative, xdp.BindCopy}, Rounds: []float64{4, 3, 9}},
		{Modes: Modes{xdp.AttachNative, xdp.BindZeroCopy}, Rounds: []float64{1}, Err: failed},
	}
	best, got, err := choose(results)
	if err != nil || best != (Modes{xdp.AttachNative, xdp.BindCopy}) || got[0].P50 != 5 || got[1].P50 != 4 ||
		got[2].P50 != 0 {
		t.Errorf("%v, %+v, %v", best, got, err)
	}
	results[1].Rounds = []float64{5}
	if best, _, _ := choose(results); best.Attach != xdp.AttachGeneric {
		t.Errorf("of equals %v", best)
	}
	if _, _, err := choose(results[2:]); !errors.Is(err, ErrNoMode) || !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

// A context that has ended ends the trials.
func TestFastestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Fastest(ctx, newLab(t), false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
