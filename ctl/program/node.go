package program

// This file opens one node of a group: its card and endpoint.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
)

// linger bounds the wait of a finished node for the arrival of its last packets.
const linger = 2 * time.Second

// Node is an open endpoint of a job, for a program of active messages.
type Node struct {
	funet.Carrier
	Endpoint *am.Endpoint
	place    *funet.Endpoint
	ctx      context.Context // of the command; when it ends, the endpoint's waits end
	// Own is the card if it is in this process. with describes the daemon's card if it is not.
	Own     *card.Card
	with    *attach.Info
	socket  string              // the daemon's
	Profile *hwprofiles.Profile // of the own card
	// leads returns the interface that leads to a node, with an own card. peers is the card's peers
	// file.
	leads func(node uint16) string
	peers string
	udp   bool // its frames travel in datagrams
	// Progress is called with the program's progress.
	Progress apps.Progress
}

// runOn opens the endpoint that the flags describe, and runs on it a program that sends words. It
// adds likely causes to the program's error (explain).
func runOn[R any](c *cobra.Command, f *Flags, one func(*Node) (R, error)) (R, error) {
	return runPlace(c.Context(), f, noMemory, func(n *Node) (r R, err error) {
		err = n.place.AM(func(e *am.Endpoint) error {
			e.Bind(n.ctx)
			told, err := f.progress(c.Name(), n)
			if err != nil {
				return err
			}
			defer told.End()
			r, err = one(n)
			return n.explain(err)
		})
		return r, err
	})
}

// noMemory gives no memory for messages of bytes to programs that send words
// (funet.Options.Memory).
const noMemory = -1

// runPlace opens the place in a job that the flags describe, and runs a program on it.
func runPlace[R any](ctx context.Context, f *Flags, memory int, one func(*Node) (R, error)) (r R, err error) {
	n := &Node{ctx: ctx}
	o := funet.Options{Memory: memory}
	if err = n.describe(f, &o); err != nil {
		return r, err
	}
	if f.Alone {
		o.Nodes = 1
	}
	// What a node allocates it allocates at the start; a collection in the middle
	// of a measurement would only be noise.
	debug.SetGCPercent(400)
	if n.place, err = funet.Open(ctx, o); err != nil {
		return r, err
	}
	n.Carrier = n.place.Carrier()
	n.Own, _ = n.Carrier.(*card.Card)
	err = n.place.AM(func(e *am.Endpoint) error {
		n.Endpoint = e
		return nil
	})
	if err == nil {
		r, err = one(n)
	}
	if err != nil {
		return r, errors.Join(err, n.close(0))
	}
	return r, n.close(linger)
}

// describe sets the options for the place that the flags describe, for a program whose one
// goroutine drives the card. The goroutine keeps this thread, on the flags' processor if they name
// one.
func (n *Node) describe(f *Flags, o *funet.Options) error {
	if !f.attached() {
		return n.describeOwn(f, o) // the card keeps the thread when it is opened
	}
	if f.CPU >= 0 {
		runtime.LockOSThread()
		if err := pin.Thread(f.CPU); err != nil {
			return err
		}
	}
	return n.describeAttached(f, o)
}

// close gives up the place in the job.
func (n *Node) close(linger time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, linger)
	defer cancel()
	return n.place.Close(ctx)
}

// describeOwn sets the options for the card that the flags describe.
func (n *Node) describeOwn(f *Flags, o *funet.Options) error {
	file, err := cluster.Load(f.peers)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--peers: %w; `funet lab peers` prints what a peers file looks like", err)
	}
	if err != nil {
		return err
	}
	if file, err = f.encapsulated(file); err != nil {
		return err
	}
	if f.Node >= len(file.Peers) {
		return fmt.Errorf("--node %d: %w: %s lists nodes 0 to %d", f.Node, card.ErrNode, f.peers, len(file.Peers)-1)
	}
	attach, err := ParseAttach(f.Mode)
	if err != nil {
		return err
	}
	bind, err := ParseBind(f.Bind)
	if err != nil {
		return err
	}
	cfg, err := funet.Members(file, f.Node, f.ifaces, cmp.Or(f.key, file.Key))
	if err != nil {
		return fmt.Errorf("--peers: %s: %w", f.peers, err)
	}
	cfg.GID = uint16(cmp.Or(f.gid, int(cfg.GID)))
	cfg.Slots, cfg.Attach, cfg.Bind, cfg.HugePages, cfg.CPU, cfg.AnyThread = f.Slots, attach, bind,
		f.hugePages, f.CPU, false
	cfg.Jumbo, cfg.VLAN, cfg.RxRing, cfg.FillFrames, cfg.Queue = f.Jumbo, uint16(f.vlan), f.rxRing,
		f.fillFrames, f.chosenQueue()
	cfg.Profile, cfg.Readable, cfg.Tune = f.machine, f.readable, func(c *engine.Config) { c.ConnectTimeout = f.Wait }
	cfg.Tell = func(line string) { fmt.Fprintln(os.Stderr, "funet: "+line) }
	o.Card = &cfg
	n.Profile, n.peers, n.udp = f.machine, f.peers, cfg.UDP != nil
	n.leads = func(node uint16) string {
		if i := int(node); i < len(cfg.Peers) && cfg.Peers[i].Interface != "" {
			return cfg.Peers[i].Interface
		}
		return f.ifaces[0]
	}
	return nil
}
