package launch

// This file is the agent: it runs on another host at the other end of ssh, and does there
// what local does here. When the launcher, and with it the connection, is gone, the agent ends everything
// that it started.

import (
	"errors"
	"fmt"
	"io"

	"github.com/funet/funet/uspace/attach"
)

// Serve is the agent of this host: it carries out the orders that come in until in ends, or the launcher is silent for too long,
// then kills what still runs and frees the group. User is the user that root runs programs as, or nil. Other errors than
// ErrLauncher mean that it could not understand what came. After one the process must end, as it may still read in.
func Serve(in io.Reader, out io.Writer, socket string, u *User) error {
	l, err := newLocal(socket, u, func(string) {})
	if err != nil {
		return err
	}
	defer l.close()
	a := &agent{local: l, speaker: speaker{to: out}}
	defer a.endInput()
	ended := make(chan struct{})
	defer close(ended)
	go a.beat(ended)
	return a.listen(in)
}

// agent carries out orders.
type agent struct {
	local   *local
	speaker speaker
	input   *io.PipeWriter // to the node that has the launcher's standard input
}

// carryOut carries out an order and answers it.
func (a *agent) carryOut(o *order) error {
	switch {
	case o.Info:
		info, err := a.local.info()
		r := refusal(err)
		r.Info = &info
		return a.answer(r)
	case o.Job != nil:
		token, err := attach.ParseToken(o.Job.Token)
		var gid uint16
		if err == nil {
			gid, err = a.local.job(attach.JobRequest{GID: o.Job.GID, Token: token, Cards: o.Job.Cards})
		}
		r := refusal(err)
		r.GID = gid
		return a.answer(r)
	case o.Free:
		a.local.free()
		return nil
	case o.Find != "":
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

func (a *agent) answer(r answer) error { return a.speaker.say(word{Answer: &r}) }

// start starts a node.
func (a *agent) start(o *startOrder) error {
	token, err := attach.ParseToken(o.Token)
	if err != nil {
		return err
	}
	n := &node{
		Number: o.Number, Nodes: o.Nodes, GID: o.GID, Token: token, Program: o.Program, Args: o.Args, Env: o.Env, Life: o.Life, Restarts: o.Restarts,
		stdout: &pieces{a, o.Number, false}, stderr: &pieces{a, o.Number, true},
		ended: func(s status) { _ = a.speaker.say(word{Ended: &endedWord{o.Number, s}}) }, // a launcher that is gone needs no word
	}
	if o.Input {
		n.stdin, a.input = io.Pipe()
	}
	return a.local.start(n)
}

// feed passes on a piece of standard input and says when the node has taken it, before which
// the launcher sends no other. Meanwhile other orders are carried out.
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

// pieces is a stream of a node, sent to the launcher in pieces.
type pieces struct {
	agent *agent
	node  int
	error bool
}

// Write sends what is written.
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
