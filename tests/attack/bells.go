package attack

// This file steals doorbells: a process clears all doorbells that it can map, again and again. The
// card then finds a sleeping context that has rung only when it looks at the context by itself.
// Many other contexts sleep meanwhile.

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// SleeperContexts is the number of contexts on each host of a user of sleepers, which is as many as
// the daemon's default rule allows.
const SleeperContexts = 64

// sleepingUsers is the number of such users. They have 512 contexts on each host.
const sleepingUsers = 8

func stolenBells() Attack {
	return Attack{
		Name: "stolen_bells", Does: "clearing all doorbells in reach, beside 512 sleeping contexts of others",
		Groups: 1, Contexts: 1, slots: 64, Sleepers: sleepingUsers,
		round: (*player).clearBells,
	}
}

// clearBells clears the bits as the card does. It clears the summary each time before another word,
// as the card looks at no other word without the summary.
func (p *player) clearBells() (passes int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		page := s.k.Maps[1]
		words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(page))), len(page)/8)
		for i := range words {
			atomic.SwapUint64(&words[0], 0)
			if atomic.LoadUint64(&words[i]) != 0 {
				atomic.StoreUint64(&words[i], 0)
			}
		}
		passes++
	}
	return passes
}

// Sleepers names the attack that attacks nothing: contexts that only sleep.
const Sleepers = "sleepers"

func sleepers() Attack {
	return Attack{
		Name: Sleepers, Does: "nothing", Groups: 1, Contexts: SleeperContexts, slots: 16,
		round: func(*player) int { time.Sleep(time.Minute); return 0 },
	}
}

// SleepersCards returns what Cards returns, for the group of a user of sleepers.
func SleepersCards() []uint16 {
	a := sleepers()
	return a.Cards()
}
