package launch

// This file defines the messages between the launcher and its agent on another host. They travel
// over the standard input and output of ssh, one JSON document a line in both directions.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// raw is text whose bytes need not be UTF-8, such as a file's name. JSON strings must be UTF-8 (RFC
// 8259, section 8.1), so raw text is sent in base64.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(r)) }

func (r *raw) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*r = raw(b)
	return err
}

func texts[To, From ~string](list []From) []To {
	to := make([]To, len(list))
	for i, s := range list {
		to[i] = To(s)
	}
	return to
}

// order is a request of the launcher. It has one of its fields. Info, Job, Find, Start and Absent
// each get one answer, in their order.
type order struct {
	// Mark comes first: a random text after which the agent's words begin (beginning.go).
	Mark   string          `json:"mark,omitempty"`
	Info   bool            `json:"info,omitempty"`
	Absent bool            `json:"absent,omitempty"`
	Job    *jobOrder       `json:"job,omitempty"`
	Free   bool            `json:"free,omitempty"`
	Find   *findOrder      `json:"find,omitempty"`
	Start  *startOrder     `json:"start,omitempty"`
	Input  *inputOrder     `json:"input,omitempty"`
	Signal *syscall.Signal `json:"signal,omitempty"`
	// Alive is a sign of life, not an order: the launcher counts as dead when none comes for this
	// number of milliseconds.
	Alive int64 `json:"alive_ms,omitempty"`
}

type jobOrder struct {
	GID    uint16   `json:"gid"`
	Token  string   `json:"token"`
	Cards  []uint16 `json:"cards"`
	Direct bool     `json:"direct,omitempty"`
}

// findOrder names the program of the job. Handed is the path of the program that the launcher
// handed over open, or "".
type findOrder struct {
	Program raw  `json:"program"`
	Handed  raw  `json:"handed,omitempty"`
	Script  bool `json:"script,omitempty"` // the program handed over is a script
	OFI     bool `json:"ofi,omitempty"`    // the provider of libfabric is needed, too
}

type startOrder struct {
	Number  int    `json:"number"`
	Nodes   int    `json:"nodes"`
	GID     uint16 `json:"gid"`
	Token   string `json:"token"` // attach.Token.Text
	Program raw    `json:"program"`
	Args    []raw  `json:"args"`
	Env     []raw  `json:"env,omitempty"`    // NAME=VALUE, besides what its user gives it
	Input   bool   `json:"input"`            // the launcher's standard input comes here
	Once    bool   `json:"once,omitempty"`   // the process starts the nodes, or is all of them
	OFI     bool   `json:"ofi,omitempty"`    // it uses the provider of libfabric that was found
	Direct  bool   `json:"direct,omitempty"` // it has a direct port
	// OneSocket says that FUNET_SOCKET holds for all nodes that the process starts.
	OneSocket bool `json:"one_socket,omitempty"`
	// Life counts the node's processes from 0. Restarts is the largest number that may follow the
	// first. In a job without restarts both are 0.
	Life     int `json:"life,omitempty"`
	Restarts int `json:"restarts,omitempty"`
}

// inputOrder is a piece of standard input for the one node that gets it, at most inputPiece bytes.
type inputOrder struct {
	Data []byte `json:"data,omitempty"`
	End  bool   `json:"end,omitempty"`
}

const (
	// inputPiece and outputPiece are the most bytes in one line.
	inputPiece, outputPiece = 32 << 10, 32 << 10
	// longestOrder is the longest line: a job order with a card for each of the most nodes that
	// there can be, at six characters each, and something to spare.
	longestOrder = 8*attach.MaxNodes + 1<<20
)

// word is a message of the agent. It has one of its fields.
type word struct {
	Answer *answer     `json:"answer,omitempty"`
	Output *outputWord `json:"output,omitempty"`
	Ended  *endedWord  `json:"ended,omitempty"`
	Fed    bool        `json:"fed,omitempty"` // the last piece of input was taken
	Alive  bool        `json:"alive,omitempty"`
	Bye    bool        `json:"bye,omitempty"` // the last word: everything here has ended
}

type answer struct {
	Error  raw           `json:"error,omitempty"`  // one line
	Notes  []raw         `json:"notes,omitempty"`  // for the user of funet, a line each
	Status attach.Status `json:"status,omitempty"` // of a daemon's refusal
	Cause  string        `json:"cause,omitempty"`  // key of causes, for other errors
	Info   *attach.Info  `json:"info,omitempty"`
	GID    uint16        `json:"gid,omitempty"`
	// Absent and Attached answer the order Absent.
	Absent   []int `json:"absent,omitempty"`
	Attached int   `json:"attached,omitempty"`
}

type outputWord struct {
	Node  int    `json:"node"`
	Error bool   `json:"error,omitempty"` // standard error, not output
	Data  []byte `json:"data,omitempty"`
}

type endedWord struct {
	Node int `json:"node"`
	status
}

// causes maps names in messages to the errors that callers decide on.
var causes = map[string]error{"daemon": ErrNoDaemon, "program": ErrProgram, "provider": ErrProvider,
	"files": unix.EMFILE}

// refusal makes the answer for an error. A nil error means that the order was carried out.
func refusal(err error) answer {
	if err == nil {
		return answer{}
	}
	a := answer{Error: raw(err.Error())}
	var s attach.Status
	if errors.As(err, &s) {
		a.Status = s
	}
	for name, cause := range causes {
		if errors.Is(err, cause) {
			a.Cause = name
		}
	}
	return a
}

// distant is an error that another host reported.
type distant struct {
	text  string
	cause error
}

func (d *distant) Error() string { return d.text }
func (d *distant) Unwrap() error { return d.cause }

func (a *answer) err() error {
	switch {
	case a.Error == "":
		return nil
	case a.Status != attach.Done:
		return &distant{string(a.Error), a.Status}
	}
	return &distant{string(a.Error), causes[a.Cause]}
}

// speaker writes lines. Any goroutine may say something.
type speaker struct {
	mu sync.Mutex
	to io.Writer
}

func (s *speaker) say(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.to.Write(append(b, '\n'))
	return err
}

func linesOf(from io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), longestOrder)
	return lines
}

// hear reads lines as values of type T and passes them to each. It ends with the stream, which is
// no error, or with the first error of each.
func hear[T any](lines *bufio.Scanner, each func(*T) error) error {
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("reading %.60q: %w", lines.Text(), err)
		}
		if err := each(&v); err != nil {
			return err
		}
	}
	return lines.Err()
}
