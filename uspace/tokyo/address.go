package tokyo

// This file has network addresses (section 2.1): node and virtual address. The thesis's addresses
// also name the process at its node. Here each process is a node of its job, so the node is enough.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

// Address is a network address: the node 63:48, the virtual address 47:0.
type Address uint64

// MaxVirtual is the largest virtual address that a network address has room for.
const MaxVirtual = arctic.MaxAddress

// NewAddress returns the network address of a node's virtual address, whose lower 48 bits count.
func NewAddress(node uint16, virtual uint64) Address {
	return Address(node)<<48 | Address(virtual&MaxVirtual)
}

// Node returns the node.
func (a Address) Node() uint16 { return uint16(a >> 48) }

// Virtual returns the virtual address.
func (a Address) Virtual() uint64 { return uint64(a) & MaxVirtual }

// Plus returns the address the given bytes further on at the same node. The last address is
// followed by 0.
func (a Address) Plus(bytes uint64) Address { return NewAddress(a.Node(), a.Virtual()+bytes) }

// String returns the address as node:virtual, the latter in hexadecimal digits.
func (a Address) String() string { return fmt.Sprintf("%d:%#x", a.Node(), a.Virtual()) }
