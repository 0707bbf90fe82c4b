package card

// This file lets tests have a card sleep for as long as it can.

import (
	"time"

	"github.com/funet/funet/uspace/wait"
)

// SleepLong has Drive sleep for an hour as soon as it finds nothing, or until the engine wants to
// run.
func (k *Card) SleepLong() {
	k.wait = wait.New(wait.Policy{Looks: 1, Beside: 1, Awake: 1, FirstSleep: int64(time.Hour),
		LongestSleep: int64(time.Hour)})
}
