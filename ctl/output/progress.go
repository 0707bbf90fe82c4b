package output

// This file is progress: how much is done of something that takes longer than two seconds, and how
// long the rest will take. On a terminal a line of standard error says so, anew each half second,
// and is wiped at the end; elsewhere a line is written now and then.

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
)

const (
	// quiet is how long something goes on before anything is said of it.
	quiet = 2 * time.Second
	// refresh is the time between two looks on a terminal, and lines that between two lines
	// elsewhere.
	refresh = 500 * time.Millisecond
	lines   = 10 * time.Second
)

// Progress is something that goes on. A nil one says nothing. Its functions may be called from any
// goroutine.
type Progress struct {
	what  string
	to    io.Writer
	live  bool // a line that changes, of a terminal
	gauge *Gauge
	begin time.Time

	mu    sync.Mutex
	shown bool // the line is on the terminal
	done  chan struct{}
	gone  chan struct{}
	once  sync.Once
}

// Begin says on standard error how something goes on, until End. Total is how much there is to be
// done, in any unit; 0: nobody knows, and only the time is told.
func Begin(what string, total int64) *Progress {
	return Watch(os.Stderr, what, newGauge(total))
}

// BeginOn is Begin on another writer. If that is a terminal, one line is rewritten in place. Nil:
// nothing is written.
func BeginOn(w io.Writer, what string, total int64) *Progress {
	return Watch(w, what, newGauge(total))
}

// Watch is BeginOn for what is counted by a gauge, perhaps by another process.
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

// Add counts what has been done.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.gauge.done.Add(n)
	}
}

// Line writes a line of what has been found, if people wait for it at a terminal longer than for
// two seconds.
func (p *Progress) Line(text string) {
	if p == nil || !p.live || time.Since(p.begin) < quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.to, text)
}

// End says no more. It may be called again.
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

// wipe removes the line from the terminal.
func (p *Progress) wipe() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// sentence says how much is done after a time, and when all of it will be if it goes on like that.
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
