package bench

// This file measures programs in C on libfunet, beside the same in Go (bench calls --c).

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/funet/funet/ctl/program"
)

//go:embed c/calls.c
var callsInC []byte

// cNeeds are the tools that compile the program.
var cNeeds = []tool{{"cc", "gcc"}}

// errLibrary reports that the library is not beside the program, nor where make install puts it.
var errLibrary = errors.New("libfunet is not there; make lib builds it")

// enterC enters the calls and the messages in C.
func (o *calls) enterC(ctx context.Context, m *match) error {
	if !m.f.OnPorts() {
		return errors.New("use --card direct with --c")
	}
	if what := absent(cNeeds); what != "" {
		return errors.New(what)
	}
	if err := m.fill(); err != nil {
		return err
	}
	path, err := compileC(ctx, m.session)
	if err != nil {
		return err
	}
	run := func(do string, bytes, count int) func(context.Context) (float64, error) {
		args := []string{do, strconv.Itoa(bytes), strconv.Itoa(count), strconv.Itoa(warmUp)}
		return func(ctx context.Context) (float64, error) {
			nodes, err := program.RunForeign[node](ctx, &m.f.Flags, m.lab, 2, 2, path, args)
			switch {
			case err != nil:
				return 0, fmt.Errorf("%w: %w", errFunet, err)
			case do == "calls":
				return p50(nodes), nil
			case do == "polls":
				return max(nodes[0].EmptyPoll, nodes[1].EmptyPoll), nil
			}
			return arrived(nodes), nil
		}
	}
	m.theirs("c_call", run("calls", payload, o.exchanges))
	m.theirs("c_send16", run("sends", 16, o.messages))
	m.theirs("c_empty_poll", run("polls", payload, o.messages))
	return nil
}

// compileC compiles the program, and puts the library beside it, where an ordinary user may run
// both.
func compileC(ctx context.Context, s *session) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(self)
	headers, libraries := bin, bin // of make lib; else those of make install
	if _, err := os.Stat(filepath.Join(bin, "libfunet.so.1")); err != nil {
		headers, libraries = filepath.Join(bin, "../include"), filepath.Join(bin, "../lib")
	}
	library, source := filepath.Join(s.dir, "libfunet.so.1"), filepath.Join(s.dir, "calls.c")
	if err := copyFile(library, filepath.Join(libraries, "libfunet.so.1")); err != nil {
		return "", fmt.Errorf("%w: %w", errLibrary, err)
	}
	if err := errors.Join(os.WriteFile(source, callsInC, 0o600), os.Chmod(s.dir, 0o755)); err != nil {
		return "", fmt.Errorf("writing calls.c: %w", err)
	}
	path := filepath.Join(s.dir, "calls")
	if _, err = s.runTool(ctx, nil, "cc", "-O2", "-I", headers, "-o", path, source, library,
		"-Wl,-rpath,$ORIGIN"); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o755)
}

// copyFile copies a file, for everybody to read.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// reportC adds what was measured in C.
func (o *calls) reportC(m *match, r *report) {
	r.with(figure{"c_call_p50_us", m.median("c_call")}, figure{"c_call_ratio", m.ratio("c_call", "call")},
		figure{"rounds_c_call_ratio", m.ratios("c_call", "call")},
		figure{"c_send16_msgs_per_s", m.median("c_send16")},
		figure{"c_send16_ratio", m.ratio("c_send16", "send16")},
		figure{"rounds_c_send16_ratio", m.ratios("c_send16", "send16")},
		figure{"c_empty_poll_ns", m.median("c_empty_poll")})
	r.print("in C: a call takes %.2f us, by that in Go %.3f (%s)\n", m.median("c_call"), m.ratio("c_call", "call"),
		ratios3(m.ratios("c_call", "call")))
	r.print("in C: arrays of messages of 16 bytes: %.2f million/s, by those in Go %.3f (%s)\n",
		m.median("c_send16")/1e6, m.ratio("c_send16", "send16"), ratios3(m.ratios("c_send16", "send16")))
	r.print("in C: a poll that finds nothing takes %.1f ns\n", m.median("c_empty_poll"))
}
