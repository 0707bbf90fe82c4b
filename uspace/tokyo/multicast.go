package tokyo

// This file has chained multicast (thesis, sections 2.2.1 and 3.3.1.3).

import "github.com/funet/funet/uspace/funi"

// Join makes the process a member of a chain. Multicasts of the other members come as messages from
// them (Options.Others). Errors are rma.ErrChain and those of drive.
func (p *Process) Join(c funi.Chain) error { return p.end.Join(c) }

// Leave ends the membership. Errors are those of Join.
func (p *Process) Leave(number uint16) error { return p.end.Leave(number) }

// Multicast sends a message along the chain that begins at a node, with one copy on this process's
// link. It waits until its card knows the outcome for every member: without an error each has the
// message, once. Errors are those of rma.Endpoint.Multicast; with them the delivery names where the
// chain is broken.
func (p *Process) Multicast(first uint16, m funi.MulticastRequest) (funi.Delivery, error) {
	return p.end.Multicast(first, m)
}
