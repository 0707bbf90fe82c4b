package program

// This file adds likely causes to the errors of a program: the state of the interface, and of the
// node that is silent.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/funet/funet/ctl/doctor"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
)

// explain adds the state of a port to a program's error, because a peer that seems silent may be an
// interface that went down.
func (n *Node) explain(err error) error {
	if err == nil {
		return nil
	}
	if port := n.Err(); port != nil && !errors.Is(err, port) {
		return fmt.Errorf("%w (%w)", err, port)
	}
	var u *am.Undelivered
	if errors.As(err, &u) && u.Reason == arctic.ReasonSilent && n.Own != nil {
		if fault := n.Own.Fault(u.Node); fault != nil {
			return fmt.Errorf("%w: %w", err, fault)
		}
		return n.silence(err, u.Node)
	}
	if errors.As(err, &u) && u.Reason == arctic.ReasonSilent {
		return n.silentCards(err)
	}
	if errors.As(err, &u) && u.Reason == arctic.ReasonJob {
		if n.Own != nil {
			return fmt.Errorf("%w; see that the peers files of all its nodes have the same token, or take another gid",
				err)
		}
		return fmt.Errorf("%w; start it again without --gid, which takes a free one, or ask the administrator to end the other there (`funet gid end`)", err)
	}
	return err
}

// silence adds, to the error that a node is silent, the faults that the doctor finds on the way
// there.
func (n *Node) silence(err error, node uint16) error {
	var wrong []doctor.Finding
	if !n.udp { // what is known of the way of datagrams the card has said
		wrong = doctor.Silence(n.ctx, n.leads(node), n.peers, int(node))
	}
	if len(wrong) == 0 {
		return fmt.Errorf("%w; see that the program runs there, with the same GID and the right addresses in the peers file, or let `funet doctor` find out why", err)
	}
	for _, w := range wrong {
		err = fmt.Errorf("%w; %s of %s: %s: %s", err, w.Check, w.Subject, w.Found, w.Cure)
	}
	return err
}

// statusPatience bounds the wait for the daemon's status of other cards.
const statusPatience = 10 * time.Second

// silentCards adds, to the error that a node is silent, the state of other cards as the daemon's
// hellos found it.
func (n *Node) silentCards(err error) error {
	var r report.Status
	if attach.Call(context.Background(), n.socket, attach.KindStatus, statusPatience, nil, &r) != nil {
		return err // there is nobody to tell
	}
	for _, f := range r.Hello.Faults {
		err = fmt.Errorf("%w; funid: %s", err, f)
	}
	var silent []string
	for _, p := range r.Hello.Peers {
		if (p.Unanswered > 0 || p.HeardAgo < 0) && len(silent) < 3 {
			silent = append(silent, fmt.Sprintf("card %d at %s", p.Card, p.Address))
		}
	}
	if len(silent) > 0 {
		err =
			fmt.Errorf("%w; hellos of funid are not answered by %s: see that funid runs there, or let `funet doctor` find out why", err, strings.Join(silent, ", "))
	}
	return err
}
