package main

// This file is `funet status --watch`: it shows the status each second. On a terminal each status
// overwrites the one before, cut to the terminal's columns. Elsewhere they follow each other in
// full.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/output"
)

const (
	// watchEvery is the time between two looks.
	watchEvery = time.Second
	// columns and rows are assumed for a terminal that does not report its size.
	columns, rows = 80, 24
	// home moves the cursor to the first line. restOfLine and restOfScreen erase (ECMA-48, CUP, EL
	// and ED).
	home, restOfLine, restOfScreen = "\x1b[H", "\x1b[K", "\x1b[J"
)

// watchStatus shows the status until the context ends or the daemon does not answer.
func (s *service) watchStatus(ctx context.Context, look func() (output.Report, error)) error {
	if s.json {
		return errors.New("--watch or --json, not both: ask again for each document")
	}
	on := output.Terminal(os.Stdout)
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for first := true; ; first = false {
		status, err := within(ctx, look)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if status == nil {
			return err // of a lab some daemons may not answer, and the report says so
		}
		var text bytes.Buffer
		if err := status.WriteTable(&text); err != nil {
			return err
		}
		if err := paint(os.Stdout, text.String(), on, first); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// within returns what look returns, unless the context ends before.
func within[T any](ctx context.Context, look func() (T, error)) (found T, err error) {
	done := make(chan func() (T, error), 1)
	go func() { // which ends with the command, if the daemon is slow
		v, err := look()
		done <- func() (T, error) { return v, err }
	}()
	select {
	case answer := <-done:
		return answer()
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
}

// paint writes a text. On a terminal it writes over the text before.
func paint(w io.Writer, text string, onTerminal, first bool) error {
	var b strings.Builder
	if !onTerminal {
		if !first {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n%s", time.Now().Format(time.DateTime), text)
	} else {
		wide, high := columns, rows
		if size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ); err == nil && size.Col >
			0 && size.Row > 0 {
			wide, high = int(size.Col), int(size.Row)
		}
		b.WriteString(screen(text, wide, high))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// screen returns the text with the control codes that show it on a terminal. Lines and columns that
// do not fit are left out.
func screen(text string, wide, high int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) >= high {
		left := len(lines) - max(high-2, 0)
		lines = append(lines[:max(high-2, 0)], fmt.Sprintf("(%d more lines)", left))
	}
	var b strings.Builder
	b.WriteString(home)
	for _, l := range lines {
		if utf8.RuneCountInString(l) > wide {
			l = string([]rune(l)[:max(wide-1, 0)]) + "…"
		}
		b.WriteString(l + restOfLine + "\r\n")
	}
	return b.String() + restOfScreen
}
