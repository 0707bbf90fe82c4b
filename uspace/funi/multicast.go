package funi

// This file has the request blocks of chained multicast (Tokyo, sections 2.2.1 and 3.3.1.3;
// arctic/multicast.go). With them a process becomes a member of a chain, and sends along a chain.
//
// A chain is a tree of members. Each member names the node that it takes copies from, and the nodes
// that it sends copies on to. For each of these it also says how many members there are from that
// node on, the node included. A member takes a copy only from its parent, and only if the copy is
// to reach as many members as the member knows of. These numbers shrink from member to member, so
// no copy goes round in a loop, and no member gets a message twice.
//
// The block of SetChain:
//
//	word 0      header: bits 31:30 = 01, type = SetChain, the rest 0
//	word 1      chain 15:0, next nodes 18:16, leaves 30, first 31
//	word 2      cookie
//	word 11     parent node 15:0; 0 with first
//	words 12-15 a next node each: node 15:0, members from there on 31:16
//
// The block of Multicast:
//
//	word 0      header: bits 31:30 = 01, type = Multicast, node 15:0 of the first member, the rest
//	            0
//	word 1      chain 15:0, type of the message 24:16, put 31
//	word 2      cookie
//	word 3      of a put: address 47:32, the rest 0
//	words 4, 5  of a put: key, its lower half first
//	word 6      of a put: address 31:0
//	word 10     length in bytes; of a message a multiple of 4
//	word 11     members of the chain, 1 to 65535
//	word 12     data
//
// The card completes a multicast once, as it does an operation. Its entry in the notification ring
// is that of a completion, with operation arctic.RemoteMulticast. The field bytes is the number of
// members whose outcome is known, and reason is that of the first failure. In place of the answer
// it has
//
//	word 4      delivered 15:0, failed 31:16: members
//	word 5      how many nodes are named 15:0, at most six; doubtful 31:16: members
//	words 6-11  the nodes: node 15:0, reason 23:16
//
// Each member is counted once: as one that has it, one that does not, or, doubtful, one whose
// outcome is unknown. Without a failure every member has it, once. A node that is named has not
// taken its copy. If the reason is Doubtful (arctic.Reason), it may have taken it: then the node
// and those behind it are doubtful, unless one of them has been heard of since. With
// arctic.ReasonSilent and no node named, the reports of some members did not come.

import "github.com/funet/funet/uspace/arctic"

const (
	// SetChain makes the process a member of a chain, changes its membership, or ends it.
	SetChain  RemoteOperation = 261
	Multicast RemoteOperation = 264 // sends along a chain

	MaxChains = 64 // how many chains a context can be a member of
	MaxNext   = 4  // how many nodes a member sends copies to
	MaxNamed  = 6  // how many nodes a completion names

	chainFirst   = 1 << 31
	chainLeaves  = 1 << 30
	chainNext    = 7 << 16
	chainNumber  = 0xffff
	multicastPut = 1 << 31
	chainWords   = MaxNext // behind RemoteDataWord
)

// Next is a node that a member sends copies to.
type Next struct {
	Node    uint16
	Members uint16 // from there on, that node included
}

// Chain describes a chain as one of its members knows it.
type Chain struct {
	Number uint16 // below MaxChains
	// First says that the process is the first member, which takes what any node of the group sends
	// along the chain. The others take copies from Parent only.
	First  bool
	Parent uint16
	Next   []Next // at most MaxNext, all different
}

// MulticastRequest is a multicast of the process's own.
type MulticastRequest struct {
	Chain   uint16
	Members uint16 // of the chain, at least 1
	Cookie  uint32
	// Put makes the card write Data to Address in each member's window with the Key; all members
	// have opened theirs with the same key. Without Put, Data is the words of a message of type
	// Message. Each member finds the message in its request queue, as one from the node of this
	// process.
	Put     bool
	Message uint16
	Key     uint64
	Address uint64 // at most arctic.MaxAddress
	// of a put at most arctic.MaxMulticastBytes, of a message whole words, at most
	// arctic.MaxMulticastWords
	Data []byte
}

// Valid reports whether a card would accept the multicast's lengths.
func (m *MulticastRequest) Valid() bool {
	if m.Chain >= MaxChains || m.Members == 0 || m.Address > arctic.MaxAddress {
		return false
	}
	if m.Put {
		return len(m.Data) <= arctic.MaxMulticastBytes
	}
	return m.Message <= arctic.MaxMessageType && len(m.Data)%arctic.WordSize == 0 && len(m.Data) <=
		arctic.MaxMulticastWords*arctic.WordSize
}

// SetChain composes the block that makes the process a member of a chain, in place of its
// membership before. The card returns the block with arctic.ReasonNotOpened if it describes no
// valid membership: a number too large, a first member with a parent, more than MaxNext next nodes,
// the same one twice, or one without members.
func (s *Slot) SetChain(c *Chain, cookie uint32) {
	s.setRemote(SetChain, 0, 0, cookie)
	word := uint32(c.Number) | uint32(len(c.Next))<<16&chainNext
	if c.First {
		word |= chainFirst
	} else {
		s[RemoteCountWord] = uint32(c.Parent)
	}
	s[RemoteAreaWord] = word
	clear(s[RemoteDataWord : RemoteDataWord+chainWords])
	for i, n := range c.Next[:min(len(c.Next), MaxNext)] {
		s[RemoteDataWord+i] = uint32(n.Node) | uint32(n.Members)<<16
	}
}

// SetLeaveChain composes the block that ends the membership. Copies that the card has accepted
// before are still sent on.
func (s *Slot) SetLeaveChain(number uint16, cookie uint32) {
	s.setRemote(SetChain, 0, 0, cookie)
	s[RemoteAreaWord] = uint32(number) | chainLeaves
	clear(s[RemoteDataWord : RemoteDataWord+chainWords])
}

// SetMulticast composes the block of a Valid multicast. first is the chain's first node.
func (s *Slot) SetMulticast(first uint16, m *MulticastRequest) {
	word, key := uint32(m.Chain)|uint32(m.Message)<<16, uint64(0)
	if m.Put {
		word, key = uint32(m.Chain)|multicastPut, m.Key
	}
	s.setRemote(Multicast, first, key, m.Cookie)
	if m.Put {
		s[3], s[RemoteOffsetWord] = uint32(m.Address>>32), uint32(m.Address)
	}
	s[RemoteAreaWord], s[RemoteLengthWord], s[RemoteCountWord] = word, uint32(len(m.Data)), uint32(m.Members)
	s.setBytes(RemoteDataWord, m.Data)
}

// Delivery is the outcome of a multicast.
type Delivery struct {
	// Delivered, Failed and Doubtful are how many members have it, do not have it, and may have it.
	Delivered, Failed, Doubtful int
	// Broken has Named nodes that did not take it, or may not have taken it, and the reasons. There
	// may be more such nodes when Named is MaxNamed. The members behind a node in the chain are
	// counted with the outcome that they have.
	Named  int
	Broken [MaxNamed]Broken
}

// Broken is a node at which a chain is broken, and the reason.
type Broken struct {
	Node   uint16
	Reason arctic.Reason
}

// Delivery decodes the outcome from a completion with operation arctic.RemoteMulticast.
func (n *Notification) Delivery() (d Delivery) {
	var w [MaxAnswer / arctic.WordSize]uint32
	arctic.Words(w[:], n.Answer[:])
	d.Delivered, d.Failed, d.Named = int(uint16(w[0])), int(w[0]>>16), int(uint16(w[1]))
	d.Doubtful = int(w[1] >> 16)
	for i := range d.Broken {
		d.Broken[i] = Broken{Node: uint16(w[2+i]), Reason: arctic.Reason(w[2+i] >> 16)}
	}
	return d
}

// The card's end.

// Put encodes a delivery into the answer of a completion.
func (d *Delivery) Put(answer *[MaxAnswer]byte) {
	var w [MaxAnswer / arctic.WordSize]uint32
	w[0], w[1] = uint32(uint16(d.Delivered))|uint32(d.Failed)<<16, uint32(uint16(d.Named))|uint32(d.Doubtful)<<16
	for i, b := range d.Broken {
		w[2+i] = uint32(b.Node) | uint32(b.Reason)<<16
	}
	arctic.PutWords(answer[:], w[:])
}

// ReadChain decodes a block of SetChain into c, and sets its Next to as many nodes as the block
// has. leaves reports that the process ends its membership. The words are the card's copy.
func ReadChain(w *Slot, next *[MaxNext]Next, c *Chain) (leaves, ok bool) {
	word := w[RemoteAreaWord]
	n := int(word & chainNext >> 16)
	*c = Chain{Number: uint16(word & chainNumber), First: word&chainFirst != 0, Parent: uint16(w[RemoteCountWord])}
	if word&^(chainFirst|chainLeaves|chainNext|chainNumber) != 0 || n > MaxNext || c.Number >= MaxChains ||
		w[RemoteCountWord]>>16 != 0 || c.First && c.Parent != 0 {
		return false, false
	}
	if leaves = word&chainLeaves != 0; leaves {
		return true, n == 0 && !c.First
	}
	total := 1
	for i := range n {
		v := w[RemoteDataWord+i]
		next[i] = Next{Node: uint16(v), Members: uint16(v >> 16)}
		total += int(next[i].Members)
		if next[i].Members == 0 {
			return false, false
		}
		for _, other := range next[:i] {
			if other.Node == next[i].Node {
				return false, false
			}
		}
	}
	c.Next = next[:n]
	return false, total <= arctic.MaxMembers
}

// ReadMulticast decodes a block of Multicast into m, except for the data, and returns the data's
// length in bytes. The words are the card's copy.
func ReadMulticast(w *Slot, m *MulticastRequest) (bytes int, ok bool) {
	word := w[RemoteAreaWord]
	size := w[RemoteLengthWord]
	*m = MulticastRequest{Chain: uint16(word), Members: uint16(w[RemoteCountWord]), Cookie: w[RemoteCookieWord],
		Put:     word&multicastPut != 0,
		Message: uint16(word >> 16 & arctic.MaxMessageType),
		Key:     uint64(w[RemoteKeyWord]) | uint64(w[RemoteKeyWord+1])<<32,
		Address: uint64(w[3])<<32 | uint64(w[RemoteOffsetWord])}
	if word&^(multicastPut|arctic.MaxMessageType<<16|chainNumber) != 0 || w[RemoteCountWord] > arctic.MaxMembers ||
		w[RemoteSourceWord] != 0 ||
		size > arctic.MaxMulticastWords*arctic.WordSize ||
		m.Put && (size > arctic.MaxMulticastBytes || m.Message != 0) ||
		!m.Put && (size%arctic.WordSize != 0 || m.Key != 0 || m.Address != 0) || m.Chain >= MaxChains ||
		m.Members == 0 || m.Address > arctic.MaxAddress {
		return 0, false
	}
	return int(size), true
}
