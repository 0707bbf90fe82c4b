package attack

// This file steals doorbells: a process clears, again and again, all that it can map, so that the
// card finds a sleeping context that has rung only when it looks at the context unasked; and many
// other contexts sleep.

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// SleeperContexts is how many contexts a user of sleepers has on each host: as many as the
// daemon's default rule allows.
const SleeperContexts = 64

// sleepingUsers have 512 contexts on each host.
const sleepingUsers = 8

func stolenBells() Attack {
	return Attack{
		Name: "stolen_bells", Does: "clearing all doorbells in reach, beside 512 sleeping contexts of others",
		Groups: 1, Contexts: 1, slots: 64, Sleepers: sleepingUsers,
		round: (*player).clearBells,
	}
}

// clearBells takes the bits away as the card does, the summary each time before one of the others:
// without it the card looks at none.
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

// Sleepers is the attack that is none: a user's contexts that do nothing.
const Sleepers = "sleepers"

func sleepers() Attack {
	return Attack{
		Name: Sleepers, Does: "nothing", Groups: 1, Contexts: SleeperContexts, slots: 16,
		round: func(*player) int { time.Sleep(time.Minute); return 0 },
	}
}

// SleepersCards is Cards of the group of a user of sleepers.
func SleepersCards() []uint16 {
	a := sleepers()
	return a.Cards()
}
