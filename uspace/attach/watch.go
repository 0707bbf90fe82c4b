package attach

// This file lets a program look for what has come by itself, without a call (funi.Watch).

import "github.com/funet/funet/uspace/funi"

// Watch arms w if the program waits, and returns false if it works between its calls, or the
// context is gone. recall takes the words back, before a move replaces their memory. It returns
// when nobody reads them any more. The client's goroutine calls both. Before Close the owner takes
// them back by itself.
func (c *Client) Watch(w *funi.Watch, recall func()) bool {
	if c.err != nil || c.wait.Called(c.Now(), c.polls) {
		return false
	}
	c.recall = recall
	return w.Arm()
}

// Skipped notes that the program has found so many times that the words of Watch are as they were.
// The next call of Drive looks at the registers.
func (c *Client) Skipped(times int) { c.polls = (c.polls + uint64(times)) | (glance - 1) }

// unwatch ends the use of the words of Watch.
func (c *Client) unwatch() {
	if c.recall != nil {
		c.recall()
	}
}
