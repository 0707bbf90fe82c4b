package attach

// This file is the client: a context on a daemon's card, from Open to Close.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/wait"
)

// DefaultTimeout is how long the daemon may take for an answer.
const DefaultTimeout = 10 * time.Second

var (
	// ErrNoDaemon reports that no daemon listens on the socket.
	ErrNoDaemon = errors.New("attach: no daemon listens there; start funid, or say with FUNET_SOCKET where it listens")
	// ErrLost reports that the daemon has closed the connection, or has ended. The context is gone
	// (funi.ErrDetached); attach again when the daemon runs.
	ErrLost = fmt.Errorf("attach: the daemon is gone; attach again when it runs: %w", funi.ErrDetached)
	// ErrSilent reports that the daemon did not answer in time.
	ErrSilent = errors.New("attach: the daemon does not answer; its log may say why")
)

// Config says what to attach to.
type Config struct {
	Socket  string // of the daemon; "" stands for DefaultSocket
	GID     uint16
	Node    uint16           // own number in the group
	Nodes   int              // members that the group must have; 0: any number
	Token   Token            // of the job
	Slots   int              // of each queue, a power of two; 0 stands for the daemon's default
	Remote  funi.RemoteSizes // how much remote memory the process can open; zero: none
	Timeout time.Duration    // for each answer of the daemon; 0 stands for DefaultTimeout
	// Life is how many processes were this node before, and Restarts how many may follow the first
	// (funet run --restart). With Life above 0, Open waits some time for the daemon to notice the
	// end of the process before this one.
	Life, Restarts int
	Spin           bool // keeps Drive from sleeping: for processes that wait for several contexts
	Triggers       bool // requests are issued by triggers (funi.Page.IssueByTrigger)
	// Context ends, when it ends, every call that waits: Open, Segment and Unregister, which return
	// its cause, and the wait of Close. nil: it never ends. The waits of a program itself end by
	// its library (am.Endpoint.Bind) or have a context of their own (Wait).
	Context context.Context
}

// Client is a context on the card of a daemon. It belongs to one goroutine at a time; only
// Interrupt may be called from any.
type Client struct {
	socket  string
	timeout time.Duration
	ctx     context.Context // of Config
	conn    *net.UnixConn
	fd      int         // of conn
	card    int         // eventfd that wakes the card's thread
	process int         // on which the card wakes the process; only the card can write it
	alarm   *wait.Alarm // on which the process wakes itself; nil: not attached
	loop    int         // epoll instance of Fd (loop.go); -1: none
	buffer  []byte
	answer  AttachAnswer
	iface   *funi.Interface
	start   time.Time
	err     error // why the context is gone

	page          *funi.Page
	memory, bells []byte             // mapped
	segments      map[uint32]segment // by base
	token         Token
	row           *Row // of which it is the connection and the first context; nil: none

	polls uint64
	spin  bool
	wait  wait.Waiter
	fds   [3]unix.PollFd // which end a sleep (rest.go)
	seen  funi.Published // by Drive
	told  funi.Published // by Wait
	armed funi.Published // by Arm

	recall func() // of Watch (watch.go); nil: there is none
}

// Open connects to the daemon, attaches a context and starts its queues. Errors are ErrNoDaemon,
// ErrSilent, ErrLost, ErrMemory, and the cause of the context's end. A refusal gives ErrVersion,
// ErrForbidden, ErrGroup, ErrToken, ErrNode, ErrTaken, ErrQuota, ErrSlots, ErrFull or ErrStopping.
func Open(cfg Config) (_ *Client, err error) {
	c := newClient(cfg.Context, cfg.Socket, cfg.Timeout)
	c.spin, c.token = cfg.Spin, cfg.Token
	defer func() {
		if err != nil {
			c.release()
			err = fmt.Errorf("attaching node %d of group %d at %s: %w", cfg.Node, cfg.GID, c.socket, err)
		}
	}()
	if cfg.Slots < 0 || cfg.Slots > funi.MaxSlots {
		return nil, fmt.Errorf("%d slots: %w", cfg.Slots, ErrSlots)
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	got, err := c.enter(&cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Nodes != 0 && cfg.Nodes != c.Nodes() {
		CloseDescriptors(got)
		return nil, fmt.Errorf("the group has %d nodes, and %d processes were started for it: %w", c.Nodes(),
			cfg.Nodes, ErrNode)
	}
	memory, err := c.share(got)
	if err != nil {
		return nil, err
	}
	memory.Page.IssueByTrigger(cfg.Triggers)
	c.wait, c.fds = wait.New(wait.Client), endings(c.fd, c.process, c.alarm.FD())
	return c, c.initialize(memory)
}

// succession is how long a node's later life waits for the daemon to notice the end of the earlier
// one. The kernel closes the earlier one's socket before the launcher learns that it has ended.
const succession = 5 * time.Second

// enter asks for the context, and asks again while this node's earlier process still has it. It
// returns the descriptors that came with the answer.
func (c *Client) enter(cfg *Config) ([]int, error) {
	request := AttachRequest{GID: cfg.GID, Node: cfg.Node, Slots: uint32(cfg.Slots), Remote: cfg.Remote,
		Token: cfg.Token}
	return c.persist(cfg, request.Encode(), AttachDescriptors, func(message []byte) (err error) {
		c.answer, err = DecodeAttachAnswer(message)
		return err
	})
}

// newClient returns a client without a connection, with defaults filled in.
func newClient(ctx context.Context, socket string, timeout time.Duration) *Client {
	if ctx == nil {
		ctx = context.Background()
	}
	return &Client{
		ctx:    ctx,
		socket: cmp.Or(socket, DefaultSocket), timeout: cmp.Or(timeout, DefaultTimeout), card: -1,
		process: -1, loop: -1,
		buffer: make([]byte, MaxMessage), segments: map[uint32]segment{}, start: time.Now(),
	}
}

func (c *Client) connect() error {
	conn, err := Dial(c.ctx, c.socket, c.timeout)
	if nobodyListens(err) {
		return fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	if err != nil {
		return err
	}
	c.conn = conn
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { c.fd = int(fd) })
}

// share maps the memory that came with the answer and keeps the eventfds.
func (c *Client) share(got []int) (*funi.Memory, error) {
	if len(got) != AttachDescriptors {
		CloseDescriptors(got)
		return nil, fmt.Errorf("%d descriptors came, not %d: %w", len(got), AttachDescriptors, ErrMemory)
	}
	c.card, c.process = got[CardDescriptor], got[ProcessDescriptor]
	defer CloseDescriptors(got[:CardDescriptor])
	var err error
	if c.memory, err = MapMemory(got[MemoryDescriptor], c.answer.Memory); err != nil {
		return nil, err
	}
	if c.bells, err = MapMemory(got[DoorbellsDescriptor], funi.DoorbellsSize); err != nil {
		return nil, err
	}
	m, err := c.context(c.memory)
	if err != nil {
		return nil, err
	}
	c.page = m.Page
	c.alarm, err = wait.NewAlarm()
	return m, err
}

// context returns the context whose memory is mapped at the bytes.
func (c *Client) context(b []byte) (*funi.Memory, error) {
	m, err := funi.SharedRemoteMemory(b, c.bells, c.answer.Remote)
	if err != nil {
		return nil, err
	}
	if v := m.Page.Version(); v != funi.ABI {
		return nil, fmt.Errorf("the register page is of version %d, not %d: %w", v, funi.ABI, ErrVersion)
	}
	m.Wake = func() { wake(c.card) }
	return m, nil
}

// initialize starts the queues (thesis 3.2.1).
func (c *Client) initialize(m *funi.Memory) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.timeout, ErrSilent)
	defer cancel()
	var err error
	c.iface, err = funi.Start(m, int(c.answer.Slots), func() error { return c.Wait(ctx) })
	return err
}

// Interface returns the process's end of the context. It must not be used after Close.
func (c *Client) Interface() *funi.Interface { return c.iface }

// Nodes returns how many members the group has.
func (c *Client) Nodes() int { return int(c.answer.Nodes) }

// Answer returns what the daemon answered.
func (c *Client) Answer() AttachAnswer { return c.answer }

// Now returns the time in nanoseconds since the client was opened.
func (c *Client) Now() int64 { return int64(time.Since(c.start)) }

// Err returns why the context is gone: ErrLost, funi.ErrDetached if the daemon has ended it, or
// ErrSilent or another error of the socket. It is nil as long as no call has found the context
// gone.
func (c *Client) Err() error { return c.err }

// ask sends a request and returns the answer, which is valid until the next request.
func (c *Client) ask(request []byte, descriptors int) ([]byte, []int, error) {
	err := c.conn.SetDeadline(time.Now().Add(c.timeout))
	// the past: whatever waits ends
	defer context.AfterFunc(c.ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
	if err == nil {
		if err = Send(c.conn, request); errors.Is(err, unix.EPIPE) {
			err = nil // the socket may still have the reason why the daemon no longer listens
		}
	}
	var message []byte
	var got []int
	if err == nil {
		message, got, err = Receive(c.conn, c.buffer, descriptors)
	}
	if err != nil {
		err = ending(c.ctx, err)
		c.lost(err) // an answer that came later would be taken for another
	}
	return message, got, err
}

// lost notes why the context is gone, and tells the program.
func (c *Client) lost(why error) {
	if c.err == nil {
		c.err = why
	}
	if c.page != nil {
		c.page.PutGone()
	}
	if c.row != nil {
		c.row.putGone()
	}
}

// Close waits until everything sent has been delivered, and meanwhile discards what the process has
// not received. It waits at most for the time given, which is rounded down to milliseconds, and no
// longer than Config.Context lasts. Then it ends the context and gives back all that it had,
// segments too. It returns an error when something was left undelivered: funi.ErrUndelivered if the
// time was too short. If the context was gone already, it returns the reason.
func (c *Client) Close(linger time.Duration) error {
	err := c.err
	if err == nil {
		err = c.detach(linger)
	}
	c.release()
	if err != nil {
		return fmt.Errorf("detaching node %d of group %d: %w", c.answer.Node, c.answer.GID, err)
	}
	return nil
}

// detach asks for the end of the context and empties its receive queues until the answer comes.
func (c *Client) detach(linger time.Duration) error {
	end := time.Now().Add(linger + c.timeout)
	if err := errors.Join(c.conn.SetDeadline(end), Send(c.conn, DetachRequest{Linger: linger}.Encode())); err != nil {
		return ending(c.ctx, err)
	}
	defer c.wakeAtEnd(c.ctx)()
	for c.fds[onSocket].Events = unix.POLLIN; c.fds[onSocket].Revents == 0 && time.Now().Before(end) &&
		c.ctx.Err() == nil; {
		if c.row != nil {
			c.row.discard()
		} else {
			c.page.Arm()
			discard(c.iface)
		}
		c.sleep(max(int64(time.Until(end)), 0))
	}
	if c.fds[onSocket].Revents == 0 && c.ctx.Err() != nil {
		return fmt.Errorf("packets may be left undelivered: %w", context.Cause(c.ctx))
	}
	message, _, err := Receive(c.conn, c.buffer, 0)
	if err != nil {
		return ending(c.ctx, err)
	}
	if _, err = DecodeBody(message, KindDetach|AnswerBit); errors.Is(err, ErrBusy) {
		return fmt.Errorf("%w after %v: %w", funi.ErrUndelivered, linger, err)
	}
	return err
}

// discard empties the receive queues and the return ring.
func discard(i *funi.Interface) {
	for l := range arctic.Level(arctic.Levels) {
		for i.Receive(l) != nil {
			i.Release(l)
		}
	}
	for more := true; more; {
		_, more = i.NextReturn()
	}
}

func (c *Client) release() {
	for _, s := range c.segments {
		Unmap(s.memory)
	}
	clear(c.segments)
	for _, b := range [][]byte{c.memory, c.bells} {
		Unmap(b)
	}
	c.page, c.memory, c.bells = nil, nil, nil
	for _, fd := range []int{c.card, c.process, c.loop} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	c.card, c.process, c.loop = -1, -1, -1
	if c.alarm != nil {
		_ = c.alarm.Close()
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
}
