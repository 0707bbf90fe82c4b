package attack

// This file makes long transfers, which are few slots and many bytes. Some go from a context to
// itself, which the card copies without a frame in between; others go to the other host.

import "github.com/funet/funet/uspace/funi"

const (
	// blockBytes is the length of a transfer, and half of a segment.
	blockBytes = 1 << 20
	// blockSlots is the largest number of transfers that a context has under way.
	blockSlots = 16
)

func blocksToSelf(name string, contexts int) Attack {
	return Attack{
		Name: name, Does: "transfers of a MiB, each of a context to itself",
		Groups: 1, Contexts: contexts, slots: blockSlots, segment: 2 * blockBytes,
		round: func(p *player) int { return p.transfer(func(s *seat) uint16 { return s.node }) },
	}
}

func blocksAcross() Attack {
	return Attack{
		Name: "blocks_across", Does: "transfers of a MiB to the other host, both ways",
		Groups: 1, Contexts: 8, slots: blockSlots, segment: 2 * blockBytes,
		round: func(p *player) int { return p.transfer(p.twin) },
	}
}

// transfer keeps the send queue of each context full of transfers, and reads the notices.
func (p *player) transfer(to func(*seat) uint16) (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.receive(funi.Request, blockSlots)
		sent += s.transfer(to(s), blockBytes, blockSlots)
	}
	return sent
}

// transfer commits transfers from the first half of the segment to the second half of a node's, at
// most the given number.
func (s *seat) transfer(node uint16, bytes, most int) (sent int) {
	for ; sent < most; sent++ {
		slot := s.k.Iface.Reserve(funi.Request)
		if slot == nil {
			break
		}
		slot.SetTransfer(node, messageType, funi.Transfer{Source: segmentBase, Destination: segmentBase + uint32(bytes),
			Words: bytes / 4})
		s.k.Iface.Commit(funi.Request)
	}
	return sent
}
