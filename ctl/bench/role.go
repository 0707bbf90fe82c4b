package bench

// This file is the child's side of our own peers: the lines of the protocol, the pinned thread, and
// the loop that measures round trips.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/ctl/rawxdp"
)

// errRole reports an unknown role or a bad configuration of one.
var errRole = errors.New("no such role")

// slowest is the longest exchange that the histogram can tell from longer ones.
const slowest = 2 * rawxdp.Patience

const rawAFXDP = "raw_afxdp"

// end is one end of a turn.
type end interface {
	// run is called when both ends are open. The parent receives its result as JSON.
	run() (any, error)
	Close() error
}

var roles = map[string]func(roleConfig) (end, error){
	rawAFXDP:     exchanging(func(c roleConfig) (link, error) { return rawxdp.Open(c.Config) }),
	"udp_spin":   exchanging(openUDP),
	"tcp_spin":   exchanging(openTCP),
	roleSendmmsg: openDatagrams,
	roleStream:   openStream,
	roleGRPC:     openGRPC,
	byKernel:     rejecting(true),
	byEngine:     rejecting(false),
}

// link is one end of a transport for round trips. Ask and Answer spin.
type link interface {
	// Ask sends a message with a number and returns when it has come back.
	Ask(number uint64) error
	// Answer waits for a message and sends it back.
	Answer() error
	// Got returns the XDP modes in use, if any.
	Got() rawxdp.Modes
	Close() error
}

// connecter is a link that has to connect when both ends are open.
type connecter interface{ connect() error }

// runRole plays one end of a peer of our own. The hidden command that roleArgs name calls it with
// its two arguments, the role and the configuration. runRole talks over standard input and output,
// and returns when standard input ends. Except for grpc it locks the calling goroutine to its
// thread for good, pins the thread and switches the garbage collector off. So the process must have
// nothing else to do.
func runRole(role string, config []byte) error {
	open, known := roles[role]
	if !known {
		return fmt.Errorf("play %.20q: %w; this command is for funet's own use", role, errRole)
	}
	var c roleConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("play %s: %w: configuration %.60q: %w", role, errRole, config, err)
	}
	if c.CPU < 0 || c.Warmup < 0 || c.Exchanges < 1 {
		return fmt.Errorf("play %s: %w: CPU %d, %d and %d exchanges", role, errRole, c.CPU, c.Warmup, c.Exchanges)
	}
	stay := dedicate
	// which is measured as programs use it: with the runtime's threads and collections
	if role == roleGRPC {
		stay = remain
	}
	if err := stay(c.CPU); err != nil {
		return fmt.Errorf("play %s: %w; the comparison needs CPUs 0 and 1", role, err)
	}
	if err := play(open, c, os.Stdin, os.Stdout); err != nil {
		return fmt.Errorf("play %s: %w", role, err)
	}
	return nil
}

func play(open func(roleConfig) (end, error), c roleConfig, in io.Reader, out io.Writer) error {
	words := bufio.NewReader(in)
	for {
		if err := expect(words, wordOpen); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		e, err := open(c)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, wordReady); err != nil {
			return errors.Join(err, e.Close())
		}
		if err := expect(words, wordRun); err != nil {
			return errors.Join(err, e.Close())
		}
		found, err := e.run()
		if err = errors.Join(err, e.Close()); err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(found); err != nil {
			return err
		}
	}
}

// expect reads a word of the protocol. It returns io.EOF after the last word.
func expect(words *bufio.Reader, want string) error {
	word, err := words.ReadString('\n')
	if err != nil {
		return err
	}
	if word = strings.TrimSuffix(word, "\n"); word != want {
		return fmt.Errorf("%w: told %.20q, want %q", errRole, word, want)
	}
	return nil
}

// dedicate ties this goroutine to its thread and the thread to a CPU, for good, and switches the
// garbage collector off. The loops allocate nothing, and a collection would run on the other end's
// CPU.
func dedicate(cpu int) error {
	runtime.LockOSThread()
	if err := pin.Thread(cpu); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	return nil
}

// remain keeps the whole process on one CPU. A runtime that spreads its goroutines over the CPUs of
// both ends would disturb the other end. With remain, unary calls take a third less time.
func remain(cpu int) error {
	runtime.GOMAXPROCS(1)
	return pin.Process(cpu)
}

// exchange is an end that either asks and measures round trips, or answers.
type exchange struct {
	link
	c roleConfig
}

func exchanging(open func(roleConfig) (link, error)) func(roleConfig) (end, error) {
	return func(c roleConfig) (end, error) {
		l, err := open(c)
		if err != nil {
			return nil, err
		}
		return exchange{l, c}, nil
	}
}

// run exchanges the messages of a turn. Both ends know their number.
func (e exchange) run() (any, error) {
	o := outcome{Got: e.Got()}
	var err error
	if c, is := e.link.(connecter); is {
		err = c.connect()
	}
	switch {
	case err != nil:
	case e.c.Server:
		err = e.answerAll()
	default:
		o.sample, err = e.askAll()
	}
	return o, err
}

func (e exchange) answerAll() error {
	for i := range e.c.Warmup + e.c.Exchanges {
		if err := e.Answer(); err != nil {
			return fmt.Errorf("answer message %d: %w", i, err)
		}
	}
	return nil
}

func (e exchange) askAll() (sample, error) {
	times := hdrhistogram.New(1, slowest.Nanoseconds(), 3)
	base := time.Now()
	for i := range e.c.Warmup + e.c.Exchanges {
		start := time.Since(base)
		if err := e.Ask(uint64(i)); err != nil {
			return sample{}, fmt.Errorf("message %d: %w", i, err)
		}
		took := time.Since(base) - start
		if i >= e.c.Warmup {
			if err := times.RecordValue(min(took, slowest).Nanoseconds()); err != nil {
				return sample{}, fmt.Errorf("record %v: %w", took, err)
			}
		}
	}
	micros := func(quantile float64) float64 { return float64(times.ValueAtQuantile(quantile)) / 1000 }
	return sample{P50: micros(50), P99: micros(99)}, nil
}
