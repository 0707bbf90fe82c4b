package daemon

// This file carries out the administrator's commands: one JSON object each, with its name in "do".

import (
	"fmt"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/attach"
)

// routeRoom is how many routes an answer has room for.
const routeRoom = 8000

func (c *connection) administer(m *report.Command) error {
	if !c.d.administrator(&c.peer) {
		return fmt.Errorf("administering funid as user %d: %w", c.peer.uid, attach.ErrForbidden)
	}
	answer, err := c.command(m)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Do, err)
	}
	if err := c.answerJSON(attach.KindAdmin, answer); err != nil || m.Do != "stop" {
		return err
	}
	c.d.Stop()
	return nil
}

// command carries out a command and returns what to answer.
func (c *connection) command(m *report.Command) (any, error) {
	d := c.d
	switch m.Do {
	case "gid-list":
		s := d.statusFor(c)
		return report.GIDs{GIDs: s.Jobs, LeftOut: s.LeftOut}, nil
	case "context-list":
		s := d.statusFor(c)
		return report.Contexts{Contexts: s.Contexts, LeftOut: s.LeftOut}, nil
	case "gid-end":
		j, err := d.jobOf(m)
		if err != nil {
			return nil, err
		}
		const why = "an administrator ended the group"
		d.mu.Lock()
		if !j.ending {
			j.why = why // for its processes
		}
		d.mu.Unlock()
		d.endJob(j, why)
		j.conn.end() // its launcher sees it
		return report.GIDs{GIDs: []report.JobCounted{}}, nil
	case "route-list":
		j, err := d.jobOf(m)
		if err != nil {
			return nil, err
		}
		return d.routes(j), nil
	case "route-set":
		j, err := d.jobOf(m)
		if err != nil {
			return nil, err
		}
		if err := d.setRoute(j, m); err != nil {
			return nil, err
		}
		return d.routes(j), nil
	case "profile-show":
		return d.profileStatus(), nil
	case "profile-set":
		if err := d.setProfile(m); err != nil {
			return nil, err
		}
		return d.profileStatus(), nil
	case "context-switch":
		return d.switchTo(m)
	case "context-move":
		c.exit() // others of the account go on meanwhile
		return d.move(m)
	case "hello":
		c.exit()
		return d.hello(m)
	case "stop":
		return d.info(), nil
	}
	return nil,
		fmt.Errorf("no such command; there are gid-list, gid-end, route-list, route-set, profile-set, profile-show, context-list, context-switch, context-move, hello and stop: %w", attach.ErrCommand)
}

// jobOf finds the group that a command names.
func (d *Daemon) jobOf(m *report.Command) (*job, error) {
	if m.GID == nil {
		return nil, fmt.Errorf("which group? say gid: %w", attach.ErrCommand)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[*m.GID]
	if j == nil || !j.made || j.ending {
		return nil, fmt.Errorf("GID %d: %w; `funet gid list` lists them", *m.GID, attach.ErrGroup)
	}
	return j, nil
}

// routes lists the routes of a group.
func (d *Daemon) routes(j *job) report.Routes {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(j.cards), routeRoom)
	return report.Routes{GID: j.gid, Cards: append([]uint16{}, j.cards[:n]...), LeftOut: len(j.cards) - n}
}

// setRoute routes a node to another card. It refuses a node that is attached here.
func (d *Daemon) setRoute(j *job, m *report.Command) error {
	if j.direct {
		return fmt.Errorf("its nodes have direct ports, and stay where they are: %w", attach.ErrCommand)
	}
	if m.Node == nil || m.Card == nil {
		return fmt.Errorf("which node, and on which card? say node and card: %w", attach.ErrCommand)
	}
	if !d.knows(*m.Card) {
		return fmt.Errorf("card %d: %w", *m.Card, attach.ErrRoute)
	}
	if p := present(d.peers.Load(), int(*m.Card)); p != nil && !p.Lives(j.gid) {
		return fmt.Errorf("card %d, whose groups are %v: %w", *m.Card, p.Groups, attach.ErrHost)
	}
	node, card := *m.Node, *m.Card
	// The card's thread does it: when two change routes at once, the later one starts from the
	// routes that the first left, on the card as in the list.
	return d.loop.ask(func() error {
		routes, was, err := d.moveNode(j, node, card)
		if err != nil {
			return err
		}
		if err := d.loop.card.SetGroupRoutes(j.gid, routes); err != nil {
			d.mu.Lock()
			j.cards[node] = was
			d.mu.Unlock()
			return err
		}
		d.loop.card.Expect(j.gid, node, j.tag, card == d.cfg.Card)
		return nil
	})
}

// moveNode changes one entry of a group's routes. It returns all routes and the former entry. The
// card's thread calls it.
func (d *Daemon) moveNode(j *job, node, card uint16) (routes []uint32, was uint16, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case int(node) >= len(j.cards):
		return nil, 0, fmt.Errorf("node %d of %d: %w", node, len(j.cards), attach.ErrNode)
	case j.members[node] != nil:
		return nil, 0, fmt.Errorf("node %d is attached to this card; end it first: %w", node, attach.ErrCommand)
	case j.ending, j.gone: // its GID may be another's by now
		return nil, 0, attach.ErrGroup
	}
	was, j.cards[node] = j.cards[node], card
	routes = make([]uint32, len(j.cards))
	for n, at := range j.cards {
		routes[n] = uint32(at)
	}
	return routes, was, nil
}

// switchTo starts the turn of a group.
func (d *Daemon) switchTo(m *report.Command) (any, error) {
	err := d.loop.ask(func() error {
		l, gid := d.loop, m.GID
		if m.Context != nil {
			if *m.Context >= uint32(len(l.byBell)) || l.byBell[*m.Context] == nil {
				return fmt.Errorf("no context %d; `funet context list` lists them: %w", *m.Context, attach.ErrCommand)
			}
			gid = &l.byBell[*m.Context].job.gid
		}
		switch {
		case gid == nil:
			return fmt.Errorf("which group or context? say gid or context: %w", attach.ErrCommand)
		case l.share == nil:
			return fmt.Errorf("the profile has all groups on the card at once: %w", attach.ErrCommand)
		case !l.share.Next(*gid):
			return fmt.Errorf("group %d has no context here: %w", *gid, attach.ErrCommand)
		}
		return nil
	})
	return d.profileStatus(), err
}

// profileStatus says which profile the card has.
func (d *Daemon) profileStatus() report.ProfileStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return report.ProfileStatus{Profile: d.cfg.Profile.Name, Contexts: d.cfg.Profile.Card.Contexts}
}

// setProfile changes the card's limits. Nothing may be attached: a card with other limits
// is another card, with an incarnation of its own.
func (d *Daemon) setProfile(m *report.Command) error {
	var p *hwprofiles.Profile
	var err error
	switch {
	case (m.Profile == "") == (m.Text == ""):
		return fmt.Errorf("which profile? say profile, which is a name, or text: %w", attach.ErrCommand)
	case m.Text != "":
		p, err = hwprofiles.Parse("text", []byte(m.Text))
	default:
		p, err = hwprofiles.Embedded(m.Profile)
	}
	if err == nil {
		err = runnable(p)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, attach.ErrCommand)
	}
	d.mu.Lock()
	if len(d.jobs) > 0 || d.replacing {
		defer d.mu.Unlock()
		return fmt.Errorf("%d groups are on the card; end them first, `funet gid list` lists them: %w",
			len(d.jobs), attach.ErrBusy)
	}
	d.replacing = true
	c := d.cfg
	d.mu.Unlock()
	c.Profile = p
	err = d.replaceCard(&c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replacing = false
	if err == nil {
		d.cfg.Profile = p
	}
	return err
}
