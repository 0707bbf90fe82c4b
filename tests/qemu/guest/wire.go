package guest

// This file defines the messages of rig and guest: JSON documents, one a line. The rig sends
// orders, and the guest sends words.

import "time"

// Order is a request of the rig. One of its fields besides ID is set.
type Order struct {
	ID    int          `json:"id"` // of the process, from 1
	Start *StartOrder  `json:"start,omitempty"`
	Kill  *SignalOrder `json:"signal,omitempty"`
}

// StartOrder starts a program, which is found in PATH. The guest reports its end.
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
	Hello *Hello `json:"hello,omitempty"` // the first word
	Ended *Ended `json:"ended,omitempty"`
}

// Hello reports that a guest is up, or why not.
type Hello struct {
	Kernel    string `json:"kernel"`
	Interface string `json:"interface"`
	Driver    string `json:"driver"`
	Error     string `json:"error,omitempty"` // why the guest is not up
}

// Ended reports how a process ended. Stdout and Stderr lack their middle if they are longer than
// mostOutput.
type Ended struct {
	ID     int    `json:"id"`
	Code   int    `json:"code"` // for a signal, 128 plus its number
	Stdout string `json:"stdout"`
	// Stderr is kept as Stdout is.
	Stderr string `json:"stderr"`
	Error  string `json:"error,omitempty"` // why the process did not start, or was killed
}

// mostOutput is how many bytes are kept of each output of a process.
const mostOutput = 64 << 10
