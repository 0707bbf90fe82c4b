package launch

// This file prints the output of the nodes: whole lines, each with the number of its node.

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// longestLine is the number of bytes of a line that are kept back until its end comes. A longer
// line comes out in pieces. It stays one line unless another node prints between two pieces.
const longestLine = 64 << 10

// output is a stream that several nodes print to.
type output struct {
	mu   sync.Mutex
	to   io.Writer
	open *lines // the node whose line has come out in part but not to its end; nil: none
	// broken gets the first error of writing to to, if the channel has room. A node itself notices
	// only that its output is not read any more.
	broken chan<- error
}

// lines is one node's end of an output. Only one goroutine at a time may use it.
type lines struct {
	out    *output
	prefix string
	begun  []byte // beginning of a line without its end; at most longestLine
}

// node returns a node's end. Without label the node's output passes unchanged.
func (o *output) node(n int, label bool) io.WriteCloser {
	if !label {
		return plain{o}
	}
	return &lines{out: o, prefix: fmt.Sprintf("[%d] ", n)}
}

// write writes b in one piece, so that lines stay together.
func (o *output) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(b)
}

// put is write for the holder of the lock.
func (o *output) put(b []byte) error {
	_, err := o.to.Write(b)
	if err != nil {
		select {
		case o.broken <- err:
		default:
		}
	}
	return err
}

// Write passes on complete lines, and the beginning of a line that has become too long to be kept.
func (l *lines) Write(b []byte) (int, error) {
	l.begun = append(l.begun, b...)
	ended := bytes.LastIndexByte(l.begun, '\n') + 1
	if len(l.begun)-ended > longestLine {
		ended = len(l.begun)
	}
	if ended == 0 {
		return len(b), nil
	}
	err := l.print(l.begun[:ended])
	l.begun = l.begun[:copy(l.begun, l.begun[ended:])]
	return len(b), err
}

// print prints lines, each with the prefix. The first may lack its beginning, the last its end.
func (l *lines) print(text []byte) error {
	o := l.out
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []byte
	begins := o.open != l
	if begins && o.open != nil {
		out = append(out, '\n') // another node's line has to end here
	}
	for line := range bytes.Lines(text) {
		if begins {
			out = append(out, l.prefix...)
		}
		out, begins = append(out, line...), true
	}
	if o.open = l; out[len(out)-1] == '\n' {
		o.open = nil
	}
	return o.put(out)
}

// Close passes on an unfinished line, with a line end.
func (l *lines) Close() error {
	l.out.mu.Lock()
	open := l.out.open == l
	l.out.mu.Unlock()
	if len(l.begun) == 0 && !open {
		return nil
	}
	rest := l.begun
	l.begun = nil
	return l.print(append(rest, '\n'))
}

// plain is a node's end without labels.
type plain struct{ out *output }

func (p plain) Write(b []byte) (int, error) { return len(b), p.out.write(b) }
func (p plain) Close() error                { return nil }
