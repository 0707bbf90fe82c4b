package am

// This file determines for which nodes a barrier still waits when it ends with an error.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Missing is the error of a collective operation that ended before all nodes had called it, because
// its context ended or a message came back. It wraps that reason.
type Missing struct {
	// Nodes are those that this node has not heard from. Some of them may have called the
	// operation, and wait for others of them.
	Nodes []int
	Err   error
}

// Error names the first of the nodes.
func (m *Missing) Error() string {
	const most = 8
	var names []string
	for _, n := range m.Nodes[:min(len(m.Nodes), most)] {
		names = append(names, fmt.Sprint(n))
	}
	text := "node " + names[0] + " has not come"
	if len(names) > 1 {
		text = "nothing heard of nodes " + strings.Join(names, ", ")
	}
	if more := len(m.Nodes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s: %v", text, m.Err)
}

// Unwrap returns why the operation ended.
func (m *Missing) Unwrap() error { return m.Err }

// missing adds the missing nodes to an error of waiting for a node.
func (b *rounds) missing(node int, err error) error {
	if err == nil {
		return nil
	}
	var u *Undelivered
	if !errors.Is(err, ErrCancelled) && !errors.As(err, &u) || errors.Is(err, ErrNoHandler) {
		return err
	}
	// A message of round k speaks for its sender and the 2^k-1 nodes before that.
	came := make([]bool, b.nodes)
	came[b.node] = true
	for k := range maxRounds {
		for i := 0; b.heard[k][b.number&1] == b.number && i < min(1<<k, b.nodes); i++ {
			came[((b.node-1<<k-i)%b.nodes+b.nodes)%b.nodes] = true
		}
	}
	m := &Missing{Err: err}
	for n, has := range came {
		if !has {
			m.Nodes = append(m.Nodes, n)
		}
	}
	if !slices.Contains(m.Nodes, node) { // its message came while the wait ended
		return err
	}
	return m
}
