package link

// This file has the table of peers by card number. A card may know few peers with numbers far
// apart, as in a network of 65,536 cards. So the table has pages, and only those with a peer take
// memory.

// pagePeers is how many card numbers a page covers. A power of two: with 32 pages, each for a peer
// far from the others, all pages and their index take about as much.
const pagePeers = 32

// cards is a table of peers by card number, below size.
type cards struct {
	size  int
	index []uint16 // the page of each pagePeers numbers; 0: page 0, which is empty
	pages []*peer
}

// grow makes room for the numbers below size.
func (c *cards) grow(size int) {
	c.size = max(c.size, size)
	if c.pages == nil {
		c.pages = make([]*peer, pagePeers)
	}
	if n := (c.size + pagePeers - 1) / pagePeers; n > len(c.index) {
		c.index = append(make([]uint16, 0, n), c.index...)[:n]
	}
}

// at returns the peer with a card number below size; nil: it is not a peer.
func (c *cards) at(card uint16) *peer {
	return c.pages[int(c.index[card/pagePeers])*pagePeers+int(card%pagePeers)]
}

// set enters a peer with a card number below size.
func (c *cards) set(card uint16, p *peer) {
	page := &c.index[card/pagePeers]
	if *page == 0 {
		*page = uint16(len(c.pages) / pagePeers)
		c.pages = append(c.pages, make([]*peer, pagePeers)...)
	}
	c.pages[int(*page)*pagePeers+int(card%pagePeers)] = p
}
