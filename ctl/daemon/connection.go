package daemon

// This file serves a connection: one process, its requests one after the other, and its end, which
// frees everything that it had.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/ctl/trace"
	"github.com/funet/funet/uspace/attach"
)

// answerWithin is how long a process may take to accept an answer.
const answerWithin = time.Second

// connection is a process's connection. Its requests are served by one goroutine.
type connection struct {
	d    *Daemon
	conn *net.UnixConn
	peer peer
	rule *config.Rule
	// process is a pidfd of the peer; nil: the connection does not follow it yet (process.go). It
	// belongs to the connection's goroutine.
	process *os.File

	// mu guards fields that other goroutines end: a job's end detaches all its contexts.
	mu         sync.Mutex
	attachment *attachment // nil: none
	job        *job        // nil: none
	// kept is a context that has ended, and whose memory the process still has; nil: none.
	kept    *attachment
	port    *directPort // nil: none
	follows atomic.Bool // its process has its port, and may be told of others (fate.go)

	// The fields below belong to pace.go, and to the connection's goroutine. purse never changes.
	purse   *purse
	working bool
	// since is the thread's processor time at the last look, and spent that of the request.
	since, spent time.Duration
}

// serve carries out requests until the connection ends.
func (c *connection) serve() {
	debug.SetPanicOnFault(true) // for this goroutine: a request stores to its process's memory, too
	defer c.over()
	defer c.contained()
	buffer := buffers.Get().(*[attach.MaxMessage]byte)
	defer buffers.Put(buffer)
	for {
		message, _, err := attach.Receive(c.conn, buffer[:], 0)
		if err != nil && !errors.Is(err, attach.ErrMalformed) {
			return // the process is gone
		}
		if c.enter() != nil {
			return
		}
		var h attach.Header
		if err == nil {
			h, err = attach.DecodeHeader(message)
		}
		fatal := err != nil
		if err == nil {
			err = c.endWith(h.Kind)
		}
		if err == nil {
			err = c.carryOut(h.Kind, message)
			fatal = errors.Is(err, attach.ErrMalformed)
		}
		if fatal {
			listenNoMore(c.conn)
		}
		if err != nil {
			c.d.userLine(&c.peer, "refused: "+err.Error())
			err = c.send(attach.EncodeRefusal(h.Kind&^attach.AnswerBit, err))
		}
		if fatal || err != nil {
			return
		}
		c.exit()
	}
}

// listenNoMore comes before the last answer on a connection: the process can send nothing more, and
// what it has sent is read. The kernel resets a connection that is closed with something unread,
// and the process would not hear the answer (unix_release_sock, af_unix.c).
func listenNoMore(conn *net.UnixConn) {
	if conn.CloseRead() != nil {
		return
	}
	var some [1]byte
	for { // the socket holds a bounded number of messages, and none comes in
		if _, err := conn.Read(some[:]); err != nil {
			return
		}
	}
}

// errGone reports that the answer could not be sent.
var errGone = errors.New("the process takes no answer")

// carryOut carries out one request and answers it. After an error the process's state is as before,
// and the caller answers with a refusal.
func (c *connection) carryOut(k attach.Kind, message []byte) error {
	if c.d.stopping.Load() && (k <= attach.KindJob || k == attach.KindPort || k == attach.KindResume ||
		k == attach.KindRow) {
		return fmt.Errorf("funid is being stopped: %w", attach.ErrStopping)
	}
	if int(k) >= len(carries) || carries[k] == nil {
		return fmt.Errorf("request of kind %d: %w", k, attach.ErrKind)
	}
	return carries[k](c, message)
}

// carries has what carries out a request, by its kind.
var carries = [...]func(*connection, []byte) error{
	attach.KindAttach:     carry(attach.DecodeAttachRequest, (*connection).attach),
	attach.KindSegment:    carry(attach.DecodeSegmentRequest, (*connection).segment),
	attach.KindUnsegment:  carry(attach.DecodeUnsegmentRequest, (*connection).unsegment),
	attach.KindJob:        carry(attach.DecodeJobRequest, (*connection).makeJob),
	attach.KindStatus:     carry(bodyless, (*connection).status),
	attach.KindAdmin:      carry(document[report.Command], (*connection).administer),
	attach.KindDetach:     carry(attach.DecodeDetachRequest, (*connection).linger),
	attach.KindArrive:     carry(attach.DecodeArriveRequest, (*connection).arrive),
	attach.KindLeave:      carry(attach.DecodeLeaveRequest, (*connection).leave),
	attach.KindImage:      carry(attach.DecodeImageRequest, (*connection).image),
	attach.KindWhither:    (*connection).whither,
	attach.KindPort:       carry(attach.DecodePortRequest, (*connection).givePort),
	attach.KindResume:     carry(attach.DecodeResumeRequest, (*connection).resume),
	attach.KindFate:       carry(attach.DecodeDoubt, (*connection).doubt),
	attach.KindNeighbours: carry(bodyless, (*connection).listNeighbours),
	attach.KindShare:      carry(attach.DecodeShareRequest, (*connection).share),
	attach.KindStations:   carry(bodyless, (*connection).listStations),
	attach.KindRow:        carry(attach.DecodeRowRequest, (*connection).attachRow),
	attach.KindCapture:    carry(document[capture.Request], (*connection).capture),
	attach.KindTrace:      carry(document[trace.Request], (*connection).trace),
	attach.KindTraffic:    carry(bodyless, (*connection).traffic),
	attach.KindInfo:       carry(bodyless, (*connection).info),
}

// carry decodes a request for do.
func carry[T any](decode func([]byte) (T, error), do func(*connection, *T) error) func(*connection, []byte) error {
	return func(c *connection, message []byte) error {
		r, err := decode(message)
		if err != nil {
			return err
		}
		return do(c, &r)
	}
}

// nothing is the body of a request without one.
type nothing struct{}

func bodyless(message []byte) (none nothing, err error) {
	if n := len(message) - attach.HeaderSize; n > 0 {
		err = fmt.Errorf("a request with %d bytes after the header: %w", n, attach.ErrMalformed)
	}
	return none, err
}

func (c *connection) info(*nothing) error { return c.answerJSON(attach.KindInfo, c.d.info()) }

// document decodes the JSON of a request, which has no fields that this version does not know.
func document[T any](message []byte) (v T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(message[attach.HeaderSize:]))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&v); err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return v, nil
		}
		err = errors.New("something follows it")
	}
	return v, fmt.Errorf("reading a command: %w: %w", err, attach.ErrCommand)
}

func (c *connection) answerJSON(k attach.Kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.answer(k, body)
}

func (c *connection) answer(k attach.Kind, body []byte) error {
	message, err := attach.EncodeBody(k|attach.AnswerBit, body)
	if err != nil {
		return err
	}
	return c.send(message)
}

// unhurried ends the request's turn and lets the process take its time with answers: stream sends
// them. The end of the daemon closes the connection.
func (c *connection) unhurried() error {
	if c.conn.SetWriteDeadline(time.Time{}) != nil {
		return errGone
	}
	c.exit()
	return nil
}

// stream sends an answer, and waits until the process takes it.
func (c *connection) stream(k attach.Kind, body []byte) error {
	message, err := attach.EncodeBody(k|attach.AnswerBit, body)
	if err == nil {
		if err = attach.Send(c.conn, message); err != nil {
			err = fmt.Errorf("%w: %w", errGone, err)
		}
	}
	return err
}

// send sends an answer. A process that does not take it in time is disconnected; other requests of
// the account go on meanwhile.
func (c *connection) send(message []byte, descriptors ...int) error {
	if c.sendAtOnce(message, descriptors) {
		return nil
	}
	c.exit()
	if err := c.conn.SetWriteDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if err := attach.Send(c.conn, message, descriptors...); err != nil {
		c.end()
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// sendAtOnce sends an answer if there is room for it.
func (c *connection) sendAtOnce(message []byte, descriptors []int) (sent bool) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return false
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	err = raw.Control(func(fd uintptr) {
		sent = unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
	})
	return sent && err == nil
}

// end makes the connection's goroutine free everything and end.
func (c *connection) end() { _ = c.conn.Close() }

// leaveAll removes the connection from the daemon's tables, and returns its job.
func (c *connection) leaveAll() (j *job) {
	c.mu.Lock()
	defer c.mu.Unlock() // also after a panic
	j, c.job = c.job, nil
	c.detachLocked()
	return j
}

// over frees everything that the connection had.
func (c *connection) over() {
	defer c.contained() // what is not freed then stays counted
	c.end()
	if c.process != nil {
		c.process.Close()
	}
	if !c.working {
		c.work()
	}
	defer c.d.leavePurse(c.purse)
	defer c.exit()
	if j := c.leaveAll(); j != nil {
		c.d.endJob(j, "who made it has ended it, or has ended")
	}
	c.d.mu.Lock()
	delete(c.d.connections, c)
	c.d.mu.Unlock()
	c.d.give(c.peer.account, c.rule, usage{connections: 1})
}
