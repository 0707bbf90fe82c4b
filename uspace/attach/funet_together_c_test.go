package attach_test

// This file has programs on funet.h and programs in Go exchange tagged messages, and call
// collective operations together.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/collective"
)

// patterned are the bytes of long.c with a salt.
func patterned(salt, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(salt*37 + i*7 + i>>8*11 + i>>16*3)
	}
	return b
}

// goTogether is a node of long.c in Go, as far as it goes together with others.
func goTogether(d *daemon, node uint16) error {
	c, err := attach.Open(d.config(node))
	if err != nil {
		return err
	}
	defer c.Close(5 * time.Second)
	e, err := am.New(c.Interface(), int(node), members, c.Drive, uint64(node))
	if err != nil {
		return err
	}
	if err := e.Barrier(); err != nil {
		return err
	}
	if err := goTags(e); err != nil {
		return fmt.Errorf("tagged messages: %w", err)
	}
	if err := e.Barrier(); err != nil {
		return err
	}
	g := collective.New(e)
	for n := 0; n < 200_000; {
		for range 2 {
			if err := goCollectives(g, e, n); err != nil {
				return fmt.Errorf("blocks of %d bytes: %w", n, err)
			}
		}
		switch {
		case n < 72:
			n += 24
		case n < 73:
			n = 73
		default:
			n *= 30
		}
	}
	for _, n := range []int{1, 5, 1000} {
		if err := goReductions(g, int(node), n); err != nil {
			return err
		}
	}
	return e.Barrier()
}

// goTags has node 0 receive from everybody what they have sent in order.
func goTags(e *am.Endpoint) error {
	const each = 40
	length := func(i int) int {
		if i%2 == 0 {
			return i * 5 % 200
		}
		return i * 5 % 72
	}
	if node := e.Node(); node != 0 {
		for i := range each {
			if err := e.SendTag(0, uint32(i%2), patterned(node+i, length(i))); err != nil {
				return err
			}
		}
		return nil
	}
	b := make([]byte, 4096)
	receive := func(source, from int, tag uint32, k func(from int) int) (int, error) {
		r, err := e.Recv(source, tag, b)
		if err != nil {
			return 0, err
		}
		if i := k(r.Source); r.Tag != tag || from >= 0 && r.Source != from ||
			!bytes.Equal(b[:r.Bytes], patterned(r.Source+i, length(i))) {
			return 0, fmt.Errorf("out of order: message %d of node %d has %d bytes", i, r.Source, r.Bytes)
		}
		return r.Source, nil
	}
	seen := make([]int, members)
	for range each / 2 * (members - 1) {
		from, err := receive(am.AnySource, -1, 0, func(from int) int { return 2 * seen[from] })
		if err != nil {
			return err
		}
		seen[from]++
	}
	for n := members - 1; n > 0; n-- {
		for k := 1; k < each; k += 2 {
			if _, err := receive(n, n, 1, func(int) int { return k }); err != nil {
				return err
			}
		}
	}
	return nil
}

// goCollectives calls all operations of bytes.
func goCollectives(g *collective.Group, e *am.Endpoint, n int) error {
	node := e.Node()
	for root := 0; root < members; root += 3 {
		b := make([]byte, n)
		if node == root {
			b = patterned(root, n)
		}
		if err := g.Broadcast(root, b); err != nil || !bytes.Equal(b, patterned(root, n)) {
			return fmt.Errorf("a broadcast of node %d: %w", root, err)
		}
		all := make([]byte, n*members)
		if err := g.Gather(root, patterned(node, n), all[:btoi(node == root)*n*members]); err != nil {
			return err
		}
		for i := range members {
			if node == root && !bytes.Equal(all[i*n:(i+1)*n], patterned(i, n)) {
				return fmt.Errorf("node %d gathered other bytes of node %d", root, i)
			}
			copy(all[i*n:], patterned(100+i, n))
		}
		if err := g.Scatter(root, all[:btoi(node == root)*n*members], b); err != nil ||
			!bytes.Equal(b, patterned(100+node, n)) {
			return fmt.Errorf("a scatter of node %d: %w", root, err)
		}
	}
	send, receive := make([]byte, 0, n*members), make([]byte, n*members)
	for i := range members {
		send = append(send, patterned(node*16+i, n)...)
	}
	if err := g.AllToAll(send, receive); err != nil {
		return err
	}
	for i := range members {
		if !bytes.Equal(receive[i*n:(i+1)*n], patterned(i*16+node, n)) {
			return fmt.Errorf("node %d exchanged other bytes with node %d", node, i)
		}
	}
	if err := g.AllGather(patterned(node+7, n), receive); err != nil {
		return err
	}
	for i := range members {
		if !bytes.Equal(receive[i*n:(i+1)*n], patterned(i+7, n)) {
			return fmt.Errorf("node %d gathered other bytes of node %d", node, i)
		}
	}
	return nil
}

// goReductions calls those that compute.
func goReductions(g *collective.Group, node, n int) error {
	for _, op := range []am.Operation{am.Sum, am.Min, am.Max} {
		for _, scan := range []bool{false, true} {
			v, d, of := make([]int64, n), make([]float64, n), int64(members)
			for i := range v {
				v[i] = int64(node-1) * int64(i+1)
				d[i] = float64(v[i]) / 4
			}
			var err error
			if scan {
				of = int64(node + 1)
				err = errors.Join(collective.Scan(g, op, v), collective.Scan(g, op, d))
			} else {
				err = errors.Join(collective.AllReduce(g, op, v), collective.AllReduce(g, op, d))
			}
			if err != nil {
				return err
			}
			want := []int64{am.Sum: of*(of-1)/2 - of, am.Min: -1, am.Max: of - 2}[op]
			for i := range v {
				if v[i] != want*int64(i+1) || d[i] != float64(v[i])/4 {
					return fmt.Errorf("operation %d, scan %t: %d and %v on node %d", op, scan, v[i], d[i], node)
				}
			}
		}
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Rule: nodes in Go and in C exchange tagged messages in order, and call collective operations
// together; whichever of them node 0 is written in.
func TestCAndGoTogether(t *testing.T) {
	program := compile(t, "testdata/long.c")
	for remainder := range uint16(2) {
		d := start(t, "")
		ends := make(chan error, members)
		for node := range uint16(members) {
			go func() {
				if node%3 == remainder {
					err := goTogether(d, node)
					if err != nil {
						err = fmt.Errorf("node %d, in Go: %w", node, err)
					}
					ends <- err
					return
				}
				out, err := d.member(program, node, "together").CombinedOutput()
				if err != nil {
					err = fmt.Errorf("node %d: %w: %s", node, err, out)
				}
				ends <- err
			}()
		}
		for range members {
			if err := await(t, "a node ends", ends); err != nil {
				t.Error(err)
			}
		}
	}
}
