package engine

// This file is the time of a card. Its owner hands it to Step; the card has no clock of its own.

// clock holds the time of the present step, or of the last one, and when the card wants the next.
type clock struct {
	now      int64
	step     uint64 // number of the step
	more     bool   // work was left over; step again at once
	loopNext int64  // when packets for this card, or the units of a model, go on
}

// begin begins a step.
func (k *clock) begin(now int64) {
	k.now = now
	k.step++
	k.more, k.loopNext = false, Never
}
