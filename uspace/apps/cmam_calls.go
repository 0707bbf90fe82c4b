package apps

// This file is the part of the CMAM benchmark that measures round trips: a
// request and its reply, calls to a node's memory, and barriers.

import (
	"github.com/funet/funet/uspace/am"
)

// roundTrip measures a request to node 1 and its reply.
func (c *cmam) roundTrip(name string, ping func() error) func() error {
	return c.call(name, "round_trip", 1, func() error {
		want := c.counted + 1
		if err := ping(); err != nil {
			return err
		}
		return c.e.Wait(func() bool { return c.counted == want })
	})
}

// call measures something that node 0 does again and again, calls times in a row.
func (c *cmam) call(name, measure string, calls int, do func() error) func() error {
	return func() error {
		if c.e.Node() != 0 {
			return nil
		}
		if err := do(); err != nil { // the first finds nothing ready
			return err
		}
		var took int64
		for i := range cmamRounds {
			if !c.o.InPhase {
				c.e.Work(phase(0, i))
			}
			begin := c.clock()
			if err := do(); err != nil {
				return err
			}
			took += c.clock() - begin
		}
		c.row(name, measure, took, cmamRounds*calls, 0)
		return nil
	}
}

// phase returns the delay, in cycles of a modelled processor, with which a node begins start i of
// cmamRounds or cmamStarts after the end of the one before. It may fall anywhere in the node's loop
// that looks for messages.
func phase(node, i int) int { return int(uint32(cmamStarts*node+i) * 2654435761 >> 25) }

// calls returns the measurements of shared memory. The overhead of a get is the time that it and
// its answer take when many are in flight. The answer of a put carries nothing; so its overhead is
// the time of the call.
func (c *cmam) calls() []func() error {
	e := c.e
	var done am.Counter
	const from, into = cmamSource, cmamInto
	get := func(words, n int) error {
		for range n {
			if err := e.Get(1, from, into, words, &done); err != nil {
				return err
			}
		}
		return e.WaitCounter(&done, n)
	}
	steps := []func() error{
		c.call("shared_memory", "read_i", 1, func() error { _, err := e.ReadInt32(1, from); return err }),
		c.call("shared_memory", "read_d", 1, func() error { _, err := e.ReadFloat64(1, from); return err }),
		c.call("shared_memory", "write_i", 1, func() error { return e.WriteInt32(1, from, 0x01010101) }),
		c.call("shared_memory", "write_d", 1, func() error { return e.WriteFloat64(1, from, 1) }),
	}
	for _, words := range []int{1, 4} {
		name := map[int]string{1: "1", 4: "16"}[words] // bytes: the rows of the CM-5 show that
		steps = append(steps,
			c.call("get", name+"_ovhd", cmamCalls, func() error { return get(words, cmamCalls) }),
			c.call("get", name+"_lat", 1, func() error { return get(words, 1) }))
	}
	return append(steps, func() error {
		if e.Node() != 0 {
			return nil
		}
		var took int64
		for range cmamRounds {
			begin := c.clock()
			for range cmamCalls {
				if err := e.PutInt32(1, from, 0x01010101, &done); err != nil {
					return err
				}
			}
			took += c.clock() - begin
			if err := e.WaitCounter(&done, cmamCalls); err != nil {
				return err
			}
		}
		c.row("put", "1_ovhd", took, cmamRounds*cmamCalls, 0)
		return nil
	}, c.call("put", "1_lat", 1, func() error {
		if err := e.PutInt32(1, from, 0x01010101, &done); err != nil {
			return err
		}
		return e.WaitCounter(&done, 1)
	}))
}

// barrier measures barriers of all nodes, in many series. In virtual time nodes that look for
// messages keep their initial relative timing for ever, and it determines the time of a round. So
// they begin each series at a different distance from each other.
func (c *cmam) barrier() error {
	e := c.e
	var took int64
	for i := range cmamStarts {
		e.Work(phase(e.Node(), i))
		if err := e.Barrier(); err != nil {
			return err
		}
		begin := c.clock()
		for range cmamRow {
			if err := e.Barrier(); err != nil {
				return err
			}
		}
		took += c.clock() - begin
	}
	if e.Node() == 0 {
		c.row("barrier", "time", took, cmamStarts*cmamRow, 0)
	}
	return e.Barrier()
}
