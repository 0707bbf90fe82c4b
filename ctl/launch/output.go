package launch

// This file prints the output of the nodes: whole lines, each with the number of its node.

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// longestLine is how much of a line is kept back until its end comes, in bytes. A longer one
// comes out in pieces that look like lines.
const longestLine = 64 << 10

// output is a stream that several nodes print to.
type output struct {
	mu sync.Mutex
	to io.Writer
	// broken gets the first error of to, if there is room: a node only notices that nobody reads
	// what it prints any more.
	broken chan<- error
}

// lines is one node's end of an output. It is not for several goroutines at once.
type lines struct {
	out    *output
	prefix string
	begun  []byte // of a line that has not ended, with its prefix; at most longestLine and that
}

// node returns a node's end. Without label what is written passes unchanged.
func (o *output) node(n int, label bool) io.WriteCloser {
	if !label {
		return plain{o}
	}
	return &lines{out: o, prefix: fmt.Sprintf("[%d] ", n)}
}

// write writes the whole lines of one call at once, so that they stay together.
func (o *output) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.to.Write(b)
	if err != nil {
		select {
		case o.broken <- err:
		default:
		}
	}
	return err
}

// Write passes on the lines that have ended.
func (l *lines) Write(b []byte) (int, error) {
	var whole []byte
	for rest := b; len(rest) > 0; {
		if len(l.begun) == 0 {
			l.begun = append(l.begun, l.prefix...)
		}
		n := bytes.IndexByte(rest, '\n') + 1
		ended := n > 0
		if !ended {
			n = len(rest)
		}
		if room := longestLine + len(l.prefix) - len(l.begun); n > room {
			n, ended = room, false
		}
		l.begun = append(l.begun, rest[:n]...)
		rest = rest[n:]
		if full := len(l.begun) == longestLine+len(l.prefix); full && !ended {
			l.begun, ended = append(l.begun, '\n'), true
		}
		if ended {
			whole = append(whole, l.begun...)
			l.begun = l.begun[:0]
		}
	}
	if len(whole) == 0 {
		return len(b), nil
	}
	return len(b), l.out.write(whole)
}

// Close passes on what has no end, with one.
func (l *lines) Close() error {
	if len(l.begun) == 0 {
		return nil
	}
	rest := append(l.begun, '\n')
	l.begun = nil
	return l.out.write(rest)
}

// plain is a node's end without labels.
type plain struct{ out *output }

// Write passes everything on.
func (p plain) Write(b []byte) (int, error) { return len(b), p.out.write(b) }

// Close does nothing.
func (p plain) Close() error { return nil }
