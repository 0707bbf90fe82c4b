package apps

// This file is stream: nodes 1 to Senders send messages to node 0 as fast as they
// can. One sender measures the rate of a pair of nodes, several measure incast.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// streamHandler is the handler number of stream.
const streamHandler = 0

// streamBurst is how many messages a sender posts between two polls: enough to fill
// frames, few enough for acknowledgments to be seen in time.
const streamBurst = 256

// StreamOptions are the same on all nodes.
type StreamOptions struct {
	Senders  int // nodes 1 to Senders send
	Messages int // of each sender
	Words    int // of each message, 1 to am.MaxWords
	Progress Progress
}

// StreamResult is the result at node 0.
type StreamResult struct {
	Messages    int   // received, each of them once and undamaged
	Nanoseconds int64 // from the first to the last
}

// Stream runs stream. On nodes other than 0 the result is empty. Clock returns
// nanoseconds.
func Stream(e *am.Endpoint, clock func() int64, o StreamOptions) (StreamResult, error) {
	if o.Senders < 1 || o.Senders >= e.Nodes() || o.Messages < 1 || o.Words < 1 || o.Words > am.MaxWords {
		return StreamResult{},
			fmt.Errorf("streaming %d messages of %d words from %d nodes: use at least 1 message, 1 to %d words and 1 to %d senders",
				o.Messages, o.Words, o.Senders, am.MaxWords, e.Nodes()-1)
	}
	counts := make([]int, e.Nodes())
	sums := make([]uint64, e.Nodes())
	got, damaged := 0, 0
	var begin int64
	err := e.Handle(streamHandler, func(m *am.Message) {
		if len(m.Words) != o.Words || m.Words[o.Words-1]^m.Words[0] != pattern(o.Words) {
			damaged++
			return
		}
		if got == 0 {
			begin = clock()
		}
		got++
		if got%progressEvery == 0 {
			o.Progress.tell(got, o.Senders*o.Messages)
		}
		counts[m.Source]++
		sums[m.Source] += uint64(m.Words[0])
	})
	if err != nil {
		return StreamResult{}, err
	}
	if err := e.Barrier(); err != nil {
		return StreamResult{}, err
	}
	var r StreamResult
	if e.Node() == 0 {
		total := o.Senders * o.Messages
		if err := e.Wait(func() bool { return got+damaged >= total }); err != nil {
			return r, err
		}
		r = StreamResult{Messages: got, Nanoseconds: clock() - begin}
	} else if e.Node() <= o.Senders {
		if err := send(e, o); err != nil {
			return r, err
		}
	}
	if err := e.Barrier(); err != nil {
		return r, err
	}
	return r, verifyStream(e, o, counts, sums, damaged)
}

// pattern returns the exclusive or of the last word of a message and its first; 0: they are the
// same word.
func pattern(words int) uint32 {
	if words == 1 {
		return 0
	}
	return 0x5bd1e995
}

// send sends one node's messages.
func send(e *am.Endpoint, o StreamOptions) error {
	words := make([]uint32, o.Words)
	for i := range o.Messages {
		words[0] = uint32(i)
		words[o.Words-1] = uint32(i) ^ pattern(o.Words)
		if err := e.Post(0, streamHandler, words...); err != nil {
			return err
		}
		if i%streamBurst == streamBurst-1 {
			if _, err := e.Poll(); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyStream checks on node 0 that each message of each sender arrived once: the number of
// messages is right, and so is the sum of their numbers.
func verifyStream(e *am.Endpoint, o StreamOptions, counts []int, sums []uint64, damaged int) error {
	if e.Node() != 0 {
		return nil
	}
	var errs []error
	if damaged > 0 {
		errs = append(errs, fmt.Errorf("%w: %d messages were damaged", ErrVerify, damaged))
	}
	for n := 1; n <= o.Senders; n++ {
		want := uint64(o.Messages) * uint64(o.Messages-1) / 2
		if counts[n] != o.Messages || sums[n] != want {
			errs = append(errs, fmt.Errorf("%w: %d messages from node %d with sum %d, want %d with sum %d", ErrVerify,
				counts[n], n, sums[n], o.Messages, want))
		}
	}
	return errors.Join(errs...)
}
