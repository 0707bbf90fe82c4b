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
	for _, n := range []Fate{{Life: 7, Order: 5}, {Life: 7, Order: 5}, {Lives: true, Life: 7, Order: 4},
		{Node: 1, Lives: true, Life: 7, Order: 1},
		{Node: 3, Lives: true, Life: 7, Order: 9}, {Lives: true, Life: 8, Order: 6}, {Life: 9, Order: 0}} {
		if err := f.take(n.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	want := []Fate{{Life: 7, Order: 5}, {Node: 1, Lives: true, Life: 7, Order: 1}, {Lives: true, Life: 8, Order: 6}}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	for _, b := range [][]byte{nil, Doubt{Node: 1, Life: 2}.Encode(), Fate{Life: 0, Order: 9}.Encode(),
		append(Fate{Life: 1, Order: 9}.Encode(), 0)} {
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
