package guest

// This file is the language between rig and guest: JSON documents, one on a line, orders in one
// direction and words in the other.

import "time"

// Order is a request of the rig. One of its fields besides ID is set.
type Order struct {
	ID    int          `json:"id"` // of a process, from 1
	Start *StartOrder  `json:"start,omitempty"`
	Kill  *SignalOrder `json:"signal,omitempty"`
}

// StartOrder starts a program, which is found in PATH. Its end is reported.
type StartOrder struct {
	Args    []string      `json:"args"`
	Timeout time.Duration `json:"timeout_ns"` // after which it is killed
}

// SignalOrder sends a signal to the process with the order's ID, if it still runs.
type SignalOrder struct {
	Signal int `json:"signal"`
}

// Word is a message of a guest. One of its fields is set.
type Word struct {
	Hello *Hello `json:"hello,omitempty"` // the first
	Ended *Ended `json:"ended,omitempty"`
}

// Hello says that a guest is up.
type Hello struct {
	Kernel    string `json:"kernel"`
	Interface string `json:"interface"`
	Driver    string `json:"driver"`
	Error     string `json:"error,omitempty"` // it is not, and why
}

// Ended says how a process ended.
type Ended struct {
	ID     int    `json:"id"`
	Code   int    `json:"code"` // 128 and the number for a signal
	Stdout string `json:"stdout"`
	// both with their middle left out, if they are longer than mostOutput
	Stderr string `json:"stderr"`
	Error  string `json:"error,omitempty"` // why it did not start, or was killed
}

// mostOutput is how much of each of a process's outputs is kept, in bytes.
const mostOutput = 64 << 10
