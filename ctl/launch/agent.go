package launch

// This file is the agent: a process on each host of a job, at the other end of ssh or beside the
// launcher. It talks to the daemon and starts the processes, as the user that they run as. When the
// launcher is gone, the connection ends. The agent then ends all that it started, with descendants.

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/attach"
)

// Agent says which daemon and user a process is the agent of.
type Agent struct {
	Socket string // of the daemon
	// User is the user that this agent runs as if that is not the launcher's user, else "". Handed
	// says that the launcher handed over an open program, as descriptor 3.
	User   string
	Handed bool
	// Provider is the descriptor of the folder of libfabric's provider, which the launcher handed
	// over; 0: it did not.
	Provider int
}

// Serve makes this process the agent of its host. It carries out orders until the context or in
// ends, or the launcher is silent for too long (ErrLauncher). Then it kills the processes that
// still run, with all their descendants, and frees the group. Other errors report that it could not
// begin, or could not understand an order. After an error the process must end, because a goroutine
// may still read in. The process must have no children of its own.
func Serve(ctx context.Context, in io.Reader, out, complaints io.Writer, which Agent) error {
	l, err := newLocal(which)
	if err != nil {
		return err
	}
	a := &agent{local: l, speaker: speaker{to: out}, complaints: complaints, ended: make(chan struct{})}
	err = a.listen(ctx, in)
	a.endInput()
	l.close()
	close(a.ended)
	if a.begun {
		_ = a.speaker.say(word{Bye: true}) // to a launcher that may be gone
	}
	return err
}

type agent struct {
	local      *local
	speaker    speaker
	complaints io.Writer      // standard error
	begun      bool           // the mark was said
	input      *io.PipeWriter // to the node that has the launcher's standard input
	ended      chan struct{}
}

// begin prints the mark. All that the agent says comes after it.
func (a *agent) begin(mark string) error {
	a.begun = true
	fmt.Fprintln(a.complaints, begins(mark))
	_, err := fmt.Fprintln(a.speaker.to, speaks(mark))
	go a.beat(a.ended)
	return err
}

func (a *agent) carryOut(o *order) error {
	switch {
	case o.Mark != "" && !a.begun:
		return a.begin(o.Mark)
	case !a.begun:
	case o.Info:
		info, err := a.local.info()
		r := refusal(err)
		r.Info = &info
		return a.answer(r)
	case o.Job != nil:
		token, err := attach.ParseToken(o.Job.Token)
		var gid uint16
		if err == nil {
			gid, err = a.local.job(attach.JobRequest{GID: o.Job.GID, Direct: o.Job.Direct, Token: token,
				Cards: o.Job.Cards})
		}
		r := refusal(err)
		r.GID = gid
		return a.answer(r)
	case o.Absent:
		nodes, attached, err := a.local.absent()
		r := refusal(err)
		r.Absent, r.Attached = nodes, attached
		return a.answer(r)
	case o.Free:
		a.local.free()
		return nil
	case o.Find != nil:
		return a.answer(refusal(a.local.find(o.Find)))
	case o.Start != nil:
		return a.answer(refusal(a.start(o.Start)))
	case o.Input != nil:
		a.feed(o.Input)
		return nil
	case o.Signal != nil:
		a.local.signal(*o.Signal)
		return nil
	}
	return errors.New("an order for nothing that this version knows; run the same version of FUNet on all hosts")
}

func (a *agent) answer(r answer) error {
	r.Notes, a.local.notes = a.local.notes, nil
	return a.speaker.say(word{Answer: &r})
}

func (a *agent) start(o *startOrder) error {
	if _, err := attach.ParseToken(o.Token); err != nil {
		return err
	}
	n := &node{startOrder: *o, stdout: &pieces{a, o.Number, false}, stderr: &pieces{a, o.Number, true},
		// a launcher that is gone needs no word
		ended: func(s status) { _ = a.speaker.say(word{Ended: &endedWord{o.Number, s}}) }}
	if o.Input {
		n.stdin, a.input = io.Pipe()
	}
	return a.local.start(n)
}

// feed passes a piece of standard input to the node, and reports when the node has taken it. The
// launcher sends the next piece only then. Meanwhile other orders are carried out.
func (a *agent) feed(o *inputOrder) {
	w := a.input
	switch {
	case w == nil:
	case o.End:
		w.Close()
	default:
		go func() {
			_, err := w.Write(o.Data)
			if err == nil { // the node has not ended
				_ = a.speaker.say(word{Fed: true}) // to a launcher that may be gone
			}
		}()
	}
}

func (a *agent) endInput() {
	if a.input != nil {
		a.input.Close()
	}
}

// pieces is an output stream of a node, sent to the launcher in pieces.
type pieces struct {
	agent *agent
	node  int
	error bool
}

func (p *pieces) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), outputPiece)
		if err := p.agent.speaker.say(word{Output: &outputWord{p.node, p.error, rest[:n]}}); err != nil {
			return 0, fmt.Errorf("sending output: %w", err)
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// Close does nothing: the launcher closes its end when the node has ended.
func (p *pieces) Close() error { return nil }
