package scoreboard

// This file has the three groups of units of a card, and the way of a request through them (thesis
// 2.3.1, figures 2.4 to 2.7).

// Kind is a type of units.
type Kind uint8

// The kinds (thesis 2.3.2).
const (
	Requester Kind = iota // takes a process's request, and sends a packet
	Responder             // takes a packet that asks for data, and sends them back
	Completer             // takes a packet and ends its work
	Kinds                 // the number of kinds
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"requester", "responder", "completer", "none"}[min(k, Kinds)]
}

// Next returns the kind of units of the other card that a request goes to when it leaves a unit. It
// returns false when the request ends there.
func (t Type) Next(k Kind) (next Kind, more bool) {
	switch {
	case k == Requester && t.ThreeStaged():
		return Responder, true
	case k < Completer:
		return Completer, true
	}
	return Kinds, false
}

// Card is the units of one virtualised interface.
type Card struct{ groups [Kinds]*Group }

// NewCard returns a card whose groups are made by their configurations. Errors: ErrConfig.
func NewCard(c [Kinds]Config) (*Card, error) {
	var card Card
	for k := range c {
		g, err := New(c[k])
		if err != nil {
			return nil, err
		}
		card.groups[k] = g
	}
	return &card, nil
}

// Group returns the units of a kind, below Kinds.
func (c *Card) Group(k Kind) *Group { return c.groups[k] }

// Slot carries out a time slot of all units. Completers go first, then responders: what is on its
// way to an end makes room for what is behind it. leave is called with each request that has passed
// a unit of the kind; it returns false to leave it there.
func (c *Card) Slot(leave func(k Kind, r Request) bool) {
	for k := Completer; ; k-- {
		c.groups[k].Slot(func(r Request) bool { return leave(k, r) })
		if k == Requester {
			return
		}
	}
}

// Busy returns the number of requests in issue queues, wait queues and units.
func (c *Card) Busy() (n int) {
	for _, g := range c.groups {
		n += g.Queued() + g.Busy()
	}
	return n
}
