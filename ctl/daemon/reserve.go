package daemon

// This file defines the capacity of the card as a whole, and its reserve: the last quarter of the
// card's contexts, groups, memory and descriptors. A user gets of the reserve only an amount that
// leaves at least as much free as the user then has. So no user alone can take all, whatever its
// rule says, and a user that has nothing yet finds room.

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// capacity is how much of each resource the card has. Contexts with near doorbells and those with
// far ones are two: rows have the latter, and leave the former to processes that know no others.
type capacity struct {
	contexts, far             int64 // near ones, and far ones
	jobs, pieces, descriptors int64
	bytes                     int64
	limit                     string // the limit that bytes follows from, in words
	// room finds bytes and limit again; nil: the configuration gives bytes.
	room *room
}

const (
	// ownDescriptors is how many descriptors the daemon keeps for itself: for memory that is being
	// passed on, for connections that are being refused, and for metrics.
	ownDescriptors   = 128
	leastDescriptors = 64 // the least number of descriptors with which a daemon starts
)

// capacityOf returns the capacity of a card with so many bytes of memory; 0: what there is (room).
func capacityOf(bytes int64) (c capacity, err error) {
	c = capacity{contexts: funi.NearBells, far: funi.MaxContexts - funi.NearBells, jobs: arctic.MaxGID,
		pieces: mostRegions, bytes: bytes, limit: "most_memory"}
	if bytes == 0 {
		c.room = &room{}
		if c.bytes, c.limit, err = c.room.find("/", time.Now()); err != nil {
			return c, err
		}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return c, fmt.Errorf("asking how many descriptors there may be: %w", err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return c, fmt.Errorf("counting descriptors: %w", err)
	}
	c.descriptors = int64(min(files.Cur, 1<<30)) - int64(len(open)) - ownDescriptors
	if c.descriptors < leastDescriptors {
		return c,
			errors.New("there are too few descriptors to serve anybody; raise their limit (ulimit -n, LimitNOFILE=)")
	}
	return c, nil
}

// descriptors returns the number of the daemon's descriptors that a use takes. A connection takes
// one. A context takes three: an eventfd, a pipe and its process's pidfd. A row takes as many for
// all of its contexts. A job takes the pidfd of its process. A piece of memory takes its file and
// pipes, one for each pipeHolds huge pages.
func (u usage) descriptors() int64 {
	return int64(u.connections) + 3*int64(u.contexts-u.far+u.rows) + int64(u.jobs) + 2*int64(u.pieces) +
		u.bytes/(pipeHolds*hugePage)
}

// spare applies the rule of this file to a resource of which there are of in total, and all in use.
// It reports whether a user that has now of them may have more of them in addition.
func spare(of, all, now, more int64) bool {
	left := of - all - more
	return all+more <= of/4*3 || left >= 0 && now+more <= left
}

// reserved returns attach.ErrQuota when more would touch the reserve.
func (c *capacity) reserved(account uint32, all, now, more usage) error {
	for _, v := range []struct {
		what               string
		of, all, now, more int64
	}{
		{"contexts", c.contexts, int64(all.contexts - all.far), int64(now.contexts - now.far),
			int64(more.contexts - more.far)},
		{"contexts of rows", c.far, int64(all.far), int64(now.far), int64(more.far)},
		{"groups", c.jobs, int64(all.jobs), int64(now.jobs), int64(more.jobs)},
		{"pieces of shared memory", c.pieces, int64(all.pieces), int64(now.pieces), int64(more.pieces)},
		{"bytes of shared memory (" + c.limit + ")", c.bytes, all.bytes, now.bytes, more.bytes},
		{"descriptors", c.descriptors, all.descriptors(), now.descriptors(), more.descriptors()},
	} {
		if v.more > 0 && !spare(v.of, v.all, v.now, v.more) {
			return fmt.Errorf("%d of the card's %d %s are in use, and user %d with %d wants %d more; the last quarter is for users who have less than is left of it: %w",
				v.all, v.of, v.what, account, v.now, v.more, attach.ErrQuota)
		}
	}
	return nil
}
