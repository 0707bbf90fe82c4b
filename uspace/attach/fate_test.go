package attach

import (
	"errors"
	"slices"
	"testing"
)

// Rule (Fate.Order): older news of a node, the same again, and what is about no node of the job are
// handed on to nobody; what is no news ends the connection.
func TestFatesInOrder(t *testing.T) {
	var told []Fate
	f := &fates{func(n Fate) { told = append(told, n) }, map[uint16]uint64{}, 3}
	for _, n := range []Fate{{0, false, 7, 5}, {0, false, 7, 5}, {0, true, 7, 4}, {1, true, 7, 1}, {3, true, 7, 9},
		{0, true, 8, 6}, {0, false, 9, 0}} {
		if err := f.take(n.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []Fate{{0, false, 7, 5}, {1, true, 7, 1}, {0, true, 8, 6}}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	for _, b := range [][]byte{nil, Doubt{1, 2}.Encode(), Fate{0, false, 0, 9}.Encode(),
		append(Fate{0, false, 1, 9}.Encode(), 0)} {
		if err := f.take(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// Rule (Ticket.Incarnation): it is never 0, the same at both ends, and another for another ticket.
func TestIncarnationOfTicket(t *testing.T) {
	a, b := Ticket{1}, Ticket{2}
	if a.Incarnation() != (Ticket{1}).Incarnation() || a.Incarnation() == b.Incarnation() || a.Incarnation() == 0 {
		t.Errorf("incarnations %#x, %#x", a.Incarnation(), b.Incarnation())
	}
}
