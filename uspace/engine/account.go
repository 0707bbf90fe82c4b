package engine

// This file is fairness among those to whom contexts belong, such as users. A step retrieves
// a bounded number of slots from each send queue, which is little where one program has a
// card; but one with many contexts could make each step so long that the others' messages
// wait for it. So the contexts of one account that are awake share a batch, and a step takes hardly
// longer for an account with many than for one with few. What is left in the queues is next
// in the next step, which follows at once.

const (
	// accountBatch is the most slots retrieved in one step from the queues of a level of
	// all contexts of an account, as long as each has at least leastBatch.
	accountBatch = 512
	// leastBatch is what a queue has at least: less would make short trains.
	leastBatch = 8
)

// account is what somebody's contexts share. It is there as long as one of them is attached.
type account struct {
	id       uint32
	contexts int
	awake    int // of them
}

// Account puts a context on the account of that number. Contexts on none, as all are at
// first, share nothing. Call it once for a context that is attached.
func (c *Card) Account(x *Context, id uint32) {
	a := c.accounts[id]
	if a == nil {
		if c.accounts == nil {
			c.accounts = map[uint32]*account{}
		}
		a = &account{id: id}
		c.accounts[id] = a
	}
	x.account = a
	a.contexts++
	if x.awake {
		a.awake++
	}
}

// closeAccount takes a context that is detached off its account.
func (c *Card) closeAccount(x *Context) {
	a := x.account
	if a == nil {
		return
	}
	x.account = nil
	if a.contexts--; a.contexts == 0 {
		delete(c.accounts, a.id)
	}
}

// batch returns the most slots that a step retrieves from a send queue of the context.
func (x *Context) batch() int {
	if x.account == nil {
		return retrieveBatch
	}
	return min(retrieveBatch, max(leastBatch, accountBatch/max(x.account.awake, 1)))
}

// loopBatch returns the most packets of a list that a step delivers to contexts of this
// card: as many as it retrieves, or all that wait.
func (x *Context) loopBatch() int {
	if x.account == nil {
		return maxLines
	}
	return x.batch()
}
