package output

// This file reports the progress of work that takes longer than two seconds: how much is done, and
// how long the rest will take. On a terminal this is one line of standard error, rewritten each
// half second and erased at the end. Elsewhere a line is written now and then.

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
)

const (
	quiet = 2 * time.Second // the time before the first report
	// refresh is the interval between reports on a terminal, lines the interval elsewhere.
	refresh = 500 * time.Millisecond
	lines   = 10 * time.Second
)

// Progress reports the progress of some work. A nil Progress reports nothing. Its methods may be
// called from any goroutine.
type Progress struct {
	what  string
	to    io.Writer
	live  bool // one line of a terminal, rewritten in place
	gauge *Gauge
	begin time.Time

	mu    sync.Mutex
	shown bool // the line is on the terminal
	done  chan struct{}
	gone  chan struct{}
	once  sync.Once
}

// Begin reports progress on standard error, until End. Total is the amount of work, in any unit;
// with 0, for unknown, only the time is reported.
func Begin(what string, total int64) *Progress {
	return Watch(os.Stderr, what, newGauge(total))
}

// BeginOn is Begin on another writer. On a terminal one line is rewritten in place. With a nil
// writer nothing is written.
func BeginOn(w io.Writer, what string, total int64) *Progress {
	return Watch(w, what, newGauge(total))
}

// Watch is BeginOn for work that a gauge counts, perhaps in another process.
func Watch(w io.Writer, what string, g *Gauge) *Progress {
	if w == nil {
		return nil
	}
	file, isFile := w.(*os.File)
	p := &Progress{what: what, to: w, live: isFile && Terminal(file), gauge: g, begin: time.Now(),
		done: make(chan struct{}), gone: make(chan struct{})}
	every := lines
	if p.live {
		every = refresh
	}
	go p.run(every)
	return p
}

// Add adds n to the finished work.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.gauge.done.Add(n)
	}
}

// Line writes a line about an interim result, on a terminal and if the work took over two seconds.
func (p *Progress) Line(text string) {
	if p == nil || !p.live || time.Since(p.begin) < quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.to, text)
}

// End stops the reports. It may be called again.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		close(p.done)
		<-p.gone
	})
}

func (p *Progress) run(every time.Duration) {
	defer close(p.gone)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-p.done:
			p.mu.Lock()
			p.wipe()
			p.mu.Unlock()
			return
		case <-t.C:
			since := time.Since(p.begin)
			if since < quiet {
				continue
			}
			p.mu.Lock()
			if text := sentence(p.what, p.gauge, since); p.live {
				fmt.Fprintf(p.to, "\r%s\x1b[K", text)
				p.shown = true
			} else {
				fmt.Fprintln(p.to, "funet: "+text)
			}
			p.mu.Unlock()
		}
	}
}

// wipe erases the line on the terminal.
func (p *Progress) wipe() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// sentence returns the report after a time: the finished part, and the time left at the same speed.
func sentence(what string, g *Gauge, since time.Duration) string {
	done, total := g.done.Load(), g.total.Load()
	seconds := since.Round(time.Second)
	if total <= 0 || done < 0 {
		return fmt.Sprintf("%s ... %v", what, seconds)
	}
	share := min(float64(done)/float64(total), 1)
	if share == 0 {
		return fmt.Sprintf("%s ... 0 %%, %v", what, seconds)
	}
	left := time.Duration(math.Min(float64(since)*(1-share)/share, math.MaxInt64/2)).Round(time.Second)
	return fmt.Sprintf("%s ... %.0f %%, %v, about %v left", what, math.Floor(100*share), seconds, left)
}
