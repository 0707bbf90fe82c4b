// Package job is what the examples in Go share, as node.h is for those in C: a process's place in
// its job, and messages of words that it sends and waits for.
package job

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// patience bounds each wait.
const patience = 30 * time.Second

// Node is a node of the job. It belongs to the goroutine of the program.
type Node struct {
	*attach.Client
	Iface  *funi.Interface
	Number uint16
}

// Run runs a program as a node of a job of least to most nodes, with remote memory of the given
// sizes. It ends the process if the program fails.
func Run(name string, remote funi.RemoteSizes, least, most int, program func(*Node) error) {
	if err := run(remote, least, most, program); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(remote funi.RemoteSizes, least, most int, program func(*Node) error) (err error) {
	config, err := attach.Environment()
	if err != nil {
		return err
	}
	config.Remote = remote
	c, err := attach.Open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(10*time.Second)) }()
	if c.Nodes() < least || c.Nodes() > most {
		return fmt.Errorf("run %d to %d nodes", least, most)
	}
	return program(&Node{c, c.Interface(), config.Node})
}

// Step lets the card run, or this process sleep until there is something.
func (n *Node) Step() error {
	n.Drive()
	return n.Err()
}

// Until lets the card run until something is so.
func (n *Node) Until(what string, done func() bool) error {
	for end := time.Now().Add(patience); !done(); {
		if err := n.Step(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %v in vain: %s", patience, what)
		}
	}
	return nil
}

// Tell sends a message of words to a node.
func (n *Node) Tell(l funi.Level, to int, typ uint16, words ...uint32) error {
	var s *funi.Slot
	err := n.Until("a free slot", func() bool { s = n.Iface.Reserve(l); return s != nil })
	if err == nil {
		s.SetHeader(funi.NewHeader(uint16(to), typ, len(words)))
		copy(s[funi.PayloadWord:], words)
		n.Iface.Commit(l)
	}
	return err
}

// Next waits for the next message. The caller releases it.
func (n *Node) Next(l funi.Level) (s *funi.Slot, err error) {
	err = n.Until("a message", func() bool { s = n.Iface.Receive(l); return s != nil })
	return s, err
}

// Hear waits for a message of a type, and copies its words.
func (n *Node) Hear(l funi.Level, typ uint16, words []uint32) error {
	s, err := n.Next(l)
	if err != nil {
		return err
	}
	if h := s.Header(); h.Type() != typ || h.Length() != len(words) {
		return fmt.Errorf("a message of type %d with %d words, not %d with %d", h.Type(), h.Length(), typ, len(words))
	}
	copy(words, s[funi.PayloadWord:])
	n.Iface.Release(l)
	return nil
}
