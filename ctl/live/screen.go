package live

// This file runs the terminal: keys, its size, and a request to the daemon each interval. The
// screen is a state machine (bubbletea's Model). It asks in the background, so that a slow daemon
// delays no key.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

type screen struct {
	ctx        context.Context
	ask        Source
	every      time.Duration
	view       view
	last       *Sample
	wide, high int
}

// answered is an answer of the daemon, and again says that it is time for the next request.
type (
	answered struct {
		sample *Sample
		err    error
	}
	again struct{}
)

// Run shows the source's reports on the terminal that is standard input and output, each interval.
// It ends without an error when the context ends or the user presses q or Ctrl-C, and restores the
// terminal. name returns a user's name. first is a sample taken before.
func Run(ctx context.Context, ask Source, first *Sample, every time.Duration, name func(uint32) string) error {
	s := &screen{ctx: ctx, ask: ask, every: every, last: first, wide: 80, high: 24}
	s.view.name = name
	for t := range Tables {
		s.view.order[t] = t.Usual()
	}
	p := tea.NewProgram(s, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(os.Stdin),
		tea.WithOutput(os.Stdout), tea.WithFPS(20))
	_, err := p.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !errors.Is(err, tea.ErrInterrupted):
		return fmt.Errorf("showing on this terminal: %w; without one, as in `funet top | cat`, a table is printed", err)
	}
	return nil
}

// Init starts the wait of an interval before the next request.
func (s *screen) Init() tea.Cmd { return s.later() }

func (s *screen) later() tea.Cmd {
	return tea.Tick(s.every, func(time.Time) tea.Msg { return again{} })
}

func (s *screen) look() tea.Msg {
	sample, err := s.ask(s.ctx)
	return answered{sample, err}
}

// Update handles an answer, a key or a new size.
func (s *screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case again:
		return s, s.look
	case answered:
		s.take(m)
		return s, s.later()
	case tea.WindowSizeMsg:
		s.wide, s.high = max(m.Width, 1), max(m.Height, 1)
	case tea.KeyPressMsg:
		return s, s.press(m.String())
	}
	return s, nil
}

func (s *screen) take(m answered) {
	if m.err != nil {
		s.view.notice = strings.ReplaceAll(m.err.Error(), "\n", "; ") + "; asking again"
		return
	}
	s.view.notice = ""
	s.view.report = Between(s.last, m.sample)
	s.last = m.sample
}

func (s *screen) press(key string) tea.Cmd {
	v := &s.view
	o := &v.order[v.table]
	show := func(t Table) { v.table, v.from = t, 0 }
	switch key {
	case "q", "Q", "ctrl+c", "esc":
		return tea.Quit
	case "j":
		show(Jobs)
	case "c":
		show(Contexts)
	case "p":
		show(Peers)
	case "x":
		show(Rejections)
	case "tab":
		show((v.table + 1) % Tables)
	case ">", "right":
		o.Column, o.Reverse = (o.Column+1)%len(columns[v.table]), false
	case "<", "left":
		o.Column, o.Reverse = (o.Column+len(columns[v.table])-1)%len(columns[v.table]), false
	case "r":
		o.Reverse = !o.Reverse
	case "down":
		v.from++
		if v.report != nil {
			v.from = min(v.from, max(len(v.report.rows(v.table, *o, v.name))-1, 0))
		}
	case "up":
		v.from = max(v.from-1, 0)
	}
	return nil
}

// SGR sequences (ECMA-48, 8.3.117) that make the titles stand out.
const inverse, plain = "\x1b[7m", "\x1b[m"

// View returns the lines, for the terminal's alternate screen.
func (s *screen) View() tea.View {
	lines, title := s.view.lines(s.wide, s.high)
	if title >= 0 {
		lines[title] = inverse + lines[title] + plain
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
