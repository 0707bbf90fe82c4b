package main

// This file makes the round trips. One goroutine polls both endpoints in turn, so that the count
// does not depend on what else the machine does.

import (
	"errors"
	"fmt"
	"runtime/coverage"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/card"
)

const (
	ping = 0
	pong = 1
	// warmUp is the number of round trips before the counters are cleared.
	warmUp = 5_000
	// patience bounds the wait for one reply.
	patience = 10 * time.Second
)

// walk makes round trips between two hosts of a lab, and writes the counters into a folder.
func walk(folder string, trips int) (err error) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var peers []card.Peer
	for node, h := range l.Hosts() {
		peers = append(peers, card.Peer{Node: uint16(node), MAC: [6]byte(h.Interfaces[0].MAC)})
	}
	var ends [2]*am.Endpoint
	for node := range ends {
		var k *card.Card
		err := l.Do(node, func() (err error) {
			k, err = card.Open(card.Config{Interfaces: []string{"fu0"}, GID: 9, Node: uint16(node), Peers: peers, CPU: -1,
				AnyThread: true})
			return err
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.Close(time.Second)) }()
		if ends[node], err = am.New(k.Interface(), node, len(ends), k.Drive, uint64(node)); err != nil {
			return err
		}
	}
	trip, err := tripBetween(ends)
	if err != nil {
		return err
	}
	for range warmUp {
		if err := trip(); err != nil {
			return err
		}
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	for range trips {
		if err := trip(); err != nil {
			return err
		}
	}
	return errors.Join(coverage.WriteMetaDir(folder), coverage.WriteCountersDir(folder))
}

// tripBetween returns a function that makes one round trip from node 0 to node 1 and back.
func tripBetween(ends [2]*am.Endpoint) (func() error, error) {
	sent, got, failed := uint32(0), uint32(0), error(nil)
	err := errors.Join(
		ends[1].Handle(ping, func(m *am.Message) {
			failed = m.Reply4(pong, m.Words[0], m.Words[1], m.Words[2], m.Words[3])
		}),
		ends[0].Handle(pong, func(m *am.Message) { got = m.Words[0] }))
	return func() error {
		sent++
		if err := ends[0].Request4(1, ping, sent, 2, 3, 4); err != nil {
			return err
		}
		for began := time.Now(); got != sent; {
			for _, e := range ends {
				if _, err := e.Poll(); err != nil {
					return err
				}
			}
			if failed != nil {
				return failed
			}
			if time.Since(began) > patience {
				return fmt.Errorf("round trip %d: no reply within %v", sent, patience)
			}
		}
		return nil
	}, err
}
