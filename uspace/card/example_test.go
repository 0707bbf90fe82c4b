package card_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/xdp"
)

// A process has a card of its own on an interface, with the privileges that this takes; each member
// of the group names all of them. Here two members run in the two network namespaces of a lab.
func Example() {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	var peers []card.Peer
	for node, h := range l.Hosts() {
		peers = append(peers, card.Peer{Node: uint16(node), MAC: [6]byte(h.Interfaces[0].MAC)})
	}
	member := func(node int) (err error) {
		k, err := card.Open(card.Config{Interfaces: []string{"fu0"}, GID: 9, Node: uint16(node), Peers: peers,
			Attach: xdp.AttachGeneric, CPU: -1})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.Close(2*time.Second)) }()
		e, err := am.New(k.Interface(), node, len(peers), k.Drive, uint64(time.Now().UnixNano()))
		if err != nil {
			return err
		}
		if err := e.Handle(0, func(m *am.Message) {
			fmt.Println("node", e.Node(), "got", m.Words[0], "from node", m.Source)
		}); err != nil {
			return err
		}
		if err := e.Barrier(); err != nil {
			return err
		}
		if node == 0 {
			if err := e.Request4(1, 0, 42, 0, 0, 0); err != nil {
				return err
			}
		}
		return e.Barrier()
	}
	ended := make(chan error)
	for node := range peers {
		go func() { ended <- l.Do(node, func() error { return member(node) }) }()
	}
	for range peers {
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
	}
	// Output: node 1 got 42 from node 0
}
