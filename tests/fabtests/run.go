package main

// This file runs a test: its processes, and what their ends mean.

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	outOfBand = 3000 // the port of -E
	uberPort  = 2710 // of fi_ubertest
	uberName  = "fi_ubertest"
	// noData is the exit code of a test to which fi_getinfo has nothing to offer.
	noData = int(unix.ENODATA)
	// farewell is how long one process of a test may go on when the other has failed.
	farewell = 3 * time.Second
)

// result is what came of a test.
type result struct {
	failure string // in a few words; "": it passed
	output  string // of its processes
}

// run runs a test. The error is one of the stage, not of the test.
func (s *stage) run(ctx context.Context, t test, patience time.Duration) (r result, err error) {
	j, err := s.job()
	if err != nil {
		return r, err
	}
	defer j.end()
	words := strings.Fields(strings.NewReplacer("SERVER_ADDR", s.address.String(), "GOOD_ADDR",
		s.address.String()).Replace(t.line))
	name, args := words[0], words[1:]
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	server, client := s.arguments(name)
	if name == uberName {
		if err := s.write(uberFile, j.uberTests()); err != nil {
			return r, err
		}
	}
	if !t.pair {
		server = []string{"-p", "funet"}
	}
	first, err := s.start(j, 0, name, append(args[:len(args):len(args)], server...))
	if err != nil {
		return r, err
	}
	defer first.kill()
	all := []*process{first}
	if t.pair {
		port := uint16(outOfBand)
		if name == uberName {
			port = uberPort
		}
		if err := s.listening(limited, first, port); err != nil {
			return r, err
		}
		second, err := s.start(j, 1, name, append(args[:len(args):len(args)], client...))
		if err != nil {
			return r, err
		}
		defer second.kill()
		all = append(all, second)
	}
	late := await(limited, all)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	for i, p := range all {
		role := []string{"server", "client"}[i]
		p.kill()
		if r.failure == "" {
			r.failure = p.failure(t.refused)
			if r.failure != "" && t.pair {
				r.failure = role + ": " + r.failure
			}
		}
		if said := p.said.String(); said != "" {
			r.output += "  " + role + ":\n    " + strings.ReplaceAll(said, "\n", "\n    ") + "\n"
		}
	}
	if late {
		r.failure = fmt.Sprintf("took longer than %v", patience)
	}
	return r, nil
}

// arguments returns what server and client of a program get besides the test's.
func (s *stage) arguments(name string) (server, client []string) {
	if name == uberName {
		return []string{"-x", "-E"}, []string{"-E", "-u", filepath.Join(s.folder.Path(), uberFile), s.address.String()}
	}
	return []string{"-p", "funet", "-E"}, []string{"-p", "funet", "-E", s.address.String()}
}

// await waits for the end of all processes, and returns true if the context ended first. When one
// has failed the others get some time.
func await(ctx context.Context, all []*process) (late bool) {
	var grace <-chan time.Time
	any := make(chan *process, len(all))
	for _, p := range all {
		go func() {
			<-p.ended
			any <- p
		}()
	}
	for range all {
		select {
		case p := <-any:
			if p.err != nil && grace == nil {
				grace = time.After(farewell)
			}
		case <-grace:
			return false
		case <-ctx.Done():
			return true
		}
	}
	return false
}

// failure says how a process has failed, in a few words, or "".
func (p *process) failure(refused bool) string {
	var exit *exec.ExitError
	if refused {
		if errors.As(p.err, &exit) && exit.ExitCode() == noData {
			return ""
		}
		return fmt.Sprintf("it was not refused: %v", p.err)
	}
	switch {
	case p.err == nil:
		return ""
	case errors.As(p.err, &exit) && exit.ExitCode() == noData:
		return "fi_getinfo offers nothing"
	}
	return p.err.Error()
}
