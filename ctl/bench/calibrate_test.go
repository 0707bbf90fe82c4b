// Choosing an XDP mode.

package bench

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// The mode chosen is the one with the smallest median; one that does not work says why.
func TestCalibrateMode(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	// The second call finds the interfaces as the first did.
	for range 2 {
		attach, bind, results, err := CalibrateMode(t.Context(), l, options())
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
			if len(r.Rounds) != calibrationRounds || r.P50 != *median(r.Rounds) {
				t.Errorf("%+v", r)
			}
			for _, other := range results {
				if r.Attach == attach && r.Bind == bind && other.Err == nil && other.P50 < r.P50 {
					t.Errorf("chose %s, %s with %v us, while %s, %s has %v", attach, bind, r.P50, other.Attach,
						other.Bind, other.P50)
				}
			}
		}
	}
}

// When no mode works, each says why, and no mode is chosen in silence.
func TestCalibrateNoMode(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
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
	_, _, results, err := CalibrateMode(t.Context(), l, options())
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
func TestFastest(t *testing.T) {
	failed := errors.New("failed")
	results := []ModeResult{
		{Attach: xdp.AttachGeneric, Bind: xdp.BindCopy, Rounds: []float64{1, 5, 5}},
		{Attach: xdp.AttachNative, Bind: xdp.BindCopy, Rounds: []float64{4, 3, 9}},
		{Attach: xdp.AttachNative, Bind: xdp.BindZeroCopy, Rounds: []float64{1}, Err: failed},
	}
	attach, bind, got, err := fastest(results)
	if err != nil || attach != xdp.AttachNative || bind != xdp.BindCopy || got[0].P50 != 5 || got[1].P50 != 4 ||
		got[2].P50 != 0 {
		t.Errorf("%s, %s, %+v, %v", attach, bind, got, err)
	}
	results[1].Rounds = []float64{5}
	if attach, _, _, _ := fastest(results); attach != xdp.AttachGeneric {
		t.Errorf("of equals %s", attach)
	}
	if _, _, _, err := fastest(results[2:]); !errors.Is(err, ErrNoMode) || !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	text, err := json.Marshal(results[1:])
	want := `[{"xdp_mode":"native","bind_mode":"copy","rtt_p50_us":5,"rounds_p50_us":[5]},` +
		`{"xdp_mode":"native","bind_mode":"zero-copy","rounds_p50_us":[1],"error":"failed"}]`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}
