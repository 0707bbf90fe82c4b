package bench

import "testing"

// Rule (hamlyn.md, done when): what calls of package rats cost their process stands beside tables 1
// and 2, for both ends of a tagged write and of a datagram.
func TestRatsCalls(t *testing.T) {
	calls, err := ratsCalls()
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 4 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		t.Logf("%+v", c)
		if c.NS <= 0 || c.Paper <= 0 || c.Table < 1 || c.Table > 2 {
			t.Errorf("%+v", c)
		}
	}
}
