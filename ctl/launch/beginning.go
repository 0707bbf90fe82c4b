package launch

// This file separates the agent's words from all that is printed before them. On the way to the
// agent ssh, a login shell's .bashrc or a wrapper may print something. So the first order names a
// mark that the launcher chose at random, and the agent repeats it on both of its streams. All on
// standard output after the mark is the agent's. If a host fails, the text before the mark is given
// as the reason only if its agent never spoke.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// mostBefore is the limit of the text before the mark, in bytes. Beyond it a host is given up.
const mostBefore = 1 << 20

// speaks and begins return the lines that the agent prints on standard output and standard error.
// No echo of the order looks like either line.
func speaks(mark string) string { return "funet agent " + mark + " speaks" }
func begins(mark string) string { return "funet agent " + mark + " begins" }

// skipTo reads lines up to the one that ends with the agent's mark. It keeps the end of the text
// before that line.
func skipTo(lines *bufio.Scanner, mark string, before *tail) (found bool, err error) {
	end, total := []byte(speaks(mark)), 0
	tooMuch :=
		fmt.Errorf("it printed more than %d bytes before its agent spoke; its login must print less where no person logs in", mostBefore)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasSuffix(bytes.TrimRight(line, "\r"), end) {
			return true, nil
		}
		if total += len(line) + 1; total > mostBefore {
			return false, tooMuch
		}
		_, _ = before.Write(append(line, '\n'))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return false, tooMuch
	}
	return false, nil // the stream has ended, or was closed
}

// tail keeps the end of the text written to it. After the mark has come it keeps only later text.
type tail struct {
	mark string // "": none is awaited

	mu     sync.Mutex
	text   []byte
	marked bool // the mark has come
}

// longestTail is the number of bytes that a tail keeps.
const longestTail = 4 << 10

// Write appends b, and keeps only the end of the text.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if t.mark != "" && !t.marked {
		if i := bytes.Index(t.text, []byte(t.mark)); i >= 0 {
			t.text, t.marked = t.text[i+len(t.mark):], true
		}
	}
	t.text = t.text[max(0, len(t.text)-longestTail):]
	return len(b), nil
}

// last returns the last line; with after, the last one after the mark, or "" if no mark came.
func (t *tail) last(after bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after && !t.marked {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "funet: ")
}
