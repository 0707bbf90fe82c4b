package engine

// This file models the time that remote writes take on a card whose times are known for each kind
// and step (Timing.Card; HPL-95-86, tables 3 and 4). These times replace the bursts of
// heldwrite.go.
//
//   - Retrieval. Direct I/O takes no time: the processor stores request and data to the card
//     itself. DMA takes the time of its start, once a message, and that of the data over the bus.
//     A block's data goes in as many bursts as it needs; while one is sent the next is loaded
//     (table 5).
//   - Transmission takes the time of sending a packet, including its bytes onto the link, so the
//     network has no time for words. Behind the last packet of a message the card tells its host;
//     only the next packet waits for that.
//   - Preprocessing moves the frame from the link to the card, in a time that depends on its
//     contents. The frame may be encrypted, so everything behind the heads counts as data. More
//     data than a packet holds is a block. The time of a block's way to the host before its first
//     burst is time of the card's processor, too.
//   - Delivery moves the data over the bus, and then the record. The record carries the metadata,
//     so the metadata is not moved separately, unless its packet does not complete its area.
//
// Frames without packets take no time, neither out nor in: Hamlyn had none. Requests that open,
// close and reset take only the time of their transactions, because the paper has no times for
// them. It has none for operations on windows either. Packets of operations and of answers take the
// time of a write with as many bytes, and at their receiver that of their transactions
// (operateunit.go) and of the record. The same holds for multicasts and the copies that members
// send on (chain.go); the card fetches their data by DMA.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/timing"
)

// fetch notes the work of the Retrieval Unit for a write, or for its first packet.
func (u *model) fetch(w *unit, inSlot bool, data int) {
	if inSlot {
		w.direct = true
		return
	}
	w.lead += int64(u.times.DMA.Start.Duration(data, 0))
	u.split(w, max(wordsOf(data), 1))
}

// place notes the work of the Delivery Unit for a write.
func (u *model) place(w *unit, r *arctic.Remote, notifies bool) {
	words := wordsOf(len(r.Data))
	if notifies {
		w.tail = int64(u.times.Notify.Duration(len(r.Data), len(r.Metadata)))
	} else {
		words += len(r.Metadata) / arctic.WordSize
	}
	u.split(w, words)
}

// timeWrite notes in a line the time that its packet of a write takes the Transmit Scheduler. data
// and metadata are the packet's bytes; last says that it is the last packet of its message.
func (u *model) timeWrite(ln *line, inSlot bool, data, metadata int, last bool) {
	if u == nil || u.times == nil {
		return
	}
	s := &u.times.DMA
	if inSlot {
		s = &u.times.Direct
	}
	ln.Takes, ln.Behind = s.Send.Duration(data, metadata), 0
	if last {
		ln.Behind = s.Notify.Duration(data, metadata)
	}
}

// arrives returns the time for which the Preprocessor of such a card works on a frame before any of
// it is checked. A false number of packets in it costs its sender at most the time of as many
// packets as a frame may have.
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
