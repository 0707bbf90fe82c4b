package engine

// This file is the time that remote writes take on a card whose times are known for each kind and
// step (Timing.Card; HPL-95-86, tables 3 and 4), instead of what heldwrite.go says of all bursts.
//
//   - Retrieval. Of direct I/O nothing: the processor stores request and data to the card itself.
//     DMA: what starting takes, once a message, and the data over the bus, a block's in as many
//     bursts as it takes: while one is sent the next is loaded (table 5).
//   - Transmission: what sending a packet takes, its bytes onto the link included, so the network
//     has no time for words. Behind the last packet of a message the card tells its host; nobody
//     waits for that but the next packet.
//   - Preprocessing: from the link to the card, by what the frame carries. That may be encrypted,
//     so all that is behind the heads counts as data. What is more than a packet holds is a block.
//     What a block's way to the host takes before the first burst is time of the card's processor,
//     too.
//   - Delivery: the data over the bus, and then the record. It carries the metadata, so those are
//     not moved besides, unless they come with a packet that does not complete its area.
//
// Frames without packets take no time, neither out nor in: Hamlyn had none. Requests that open,
// close and reset have no time but their transactions, for the paper has none for them. It has none
// for operations on windows either: their packets, and those of answers, take what those of a write
// with as many bytes take, and at their receiver their transactions (operateunit.go) and the
// record. So do multicasts and what members send on (chain.go), whose data the card fetches by DMA.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/timing"
)

// fetch notes what the Retrieval Unit does for a write, or for its first packet.
func (u *units) fetch(w *unit, inSlot bool, data int) {
	if inSlot {
		w.direct = true
		return
	}
	w.lead += int64(u.card.DMA.Start.Duration(data, 0))
	u.split(w, max(wordsOf(data), 1))
}

// place notes what the Delivery Unit does for a write.
func (u *units) place(w *unit, r *arctic.Remote, notifies bool) {
	words := wordsOf(len(r.Data))
	if notifies {
		w.tail = int64(u.card.Notify.Duration(len(r.Data), len(r.Metadata)))
	} else {
		words += len(r.Metadata) / arctic.WordSize
	}
	u.split(w, words)
}

// timeWrite notes in a line what its packet of a write takes the Transmit Scheduler: data and
// metadata are its bytes, last says that it is the last of its message.
func (c *Card) timeWrite(ln *line, inSlot bool, data, metadata int, last bool) {
	if c.units == nil || c.units.card == nil {
		return
	}
	s := &c.units.card.DMA
	if inSlot {
		s = &c.units.card.Direct
	}
	ln.Takes, ln.Behind = s.Send.Duration(data, metadata), 0
	if last {
		ln.Behind = s.Notify.Duration(data, metadata)
	}
}

// arrives returns how long the Preprocessor of such a card works on a frame before anything in it
// is checked: what it says costs whoever sent it at most as many packets as a frame may have.
func arrives(t *timing.Card, b []byte) int64 {
	f, err := arctic.Look(b)
	if err != nil || f.Hello() || f.Packets() == 0 {
		return 0
	}
	packets := min(f.Packets(), arctic.MaxTrain)
	bytes :=
		len(f) - arctic.HeaderSize - f.Rejects()*arctic.RejectSize - packets*(arctic.PacketHeaderSize+arctic.RemoteHeadSize)
	if f.Sealed() {
		bytes -= arctic.SealSize
	}
	each := max(bytes, 0) / packets
	takes := t.Arrives(each, 0)
	if each > arctic.MaxRemoteBytes {
		takes += int64(t.Write.Duration(each, 0))
	}
	return int64(packets) * takes
}

// checkCard refuses times that no unit could work with.
func checkCard(t *timing.Card) bool {
	for _, s := range []timing.Span{t.Direct.Start, t.Direct.Send, t.Direct.Notify, t.DMA.Start, t.DMA.Send,
		t.DMA.Notify, t.Arrive, t.Write, t.Notify} {
		// Each factor by itself, so that the sum is in range.
		if min(s.Base, s.DataByte, s.MetadataByte) < 0 || max(s.Base, s.DataByte, s.MetadataByte) >
			int64(time.Second)*1000 {
			return false
		}
	}
	return true
}
