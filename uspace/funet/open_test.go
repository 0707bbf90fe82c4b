package funet_test

// This file tests the one way in: the environment, a peers file, and what contradicts them.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
)

// Rule: the place in a job is that of the environment, as funet run, and srun beside it, say; its
// absence, and what is wrong in it, is told.
func TestOpenFromTheEnvironment(t *testing.T) {
	b := newBed(t, "daemon")
	at := b.options[1].Attach
	t.Setenv(attach.SocketVariable, at.Socket)
	t.Setenv(attach.GIDVariable, fmt.Sprint(at.GID))
	t.Setenv(attach.TokenVariable, at.Token.Text())
	t.Setenv(attach.NodeVariable, "")
	t.Setenv("SLURM_PROCID", "1")
	t.Setenv("SLURM_NTASKS", "2")
	e, err := funet.Open(t.Context(), funet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Node() != 1 || e.Nodes() != 2 {
		t.Errorf("node %d of %d", e.Node(), e.Nodes())
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Setenv(attach.TokenVariable, "")
	if _, err := funet.Open(t.Context(), funet.Options{}); !errors.Is(err, attach.ErrEnvironment) {
		t.Errorf("without a token: %v", err)
	}
}

// Rule: where the environment names no job, peers file, interface and node make a card in the
// process; nodes that the file does not have are refused, and so are more nodes than there are.
func TestOpenFromAPeersFile(t *testing.T) {
	t.Setenv(attach.GIDVariable, "")
	b := newBed(t, "embedded")
	path := filepath.Join(t.TempDir(), "peers.yaml")
	data, err := b.lab.Peers(0).Marshal()
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	open := func(o funet.Options) (e *funet.Endpoint, err error) {
		o.Peers, o.Interfaces = path, []string{"fu0"}
		err = b.lab.Do(0, func() (err error) { e, err = funet.Open(t.Context(), o); return err })
		return e, err
	}
	e, err := open(funet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Node() != 0 || e.Nodes() != 2 {
		t.Errorf("node %d of %d", e.Node(), e.Nodes())
	}
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, node := range []int{2, -1} {
		if _, err := open(funet.Options{Node: node}); !errors.Is(err, card.ErrNode) {
			t.Errorf("node %d of a file of two: %v", node, err)
		}
	}
	if _, err := open(funet.Options{Nodes: 3}); !errors.Is(err, funet.ErrNode) {
		t.Errorf("three nodes in a group of two: %v", err)
	}
	if _, err := funet.Open(t.Context(), funet.Options{Peers: path + "x", Interfaces: []string{"fu0"}}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
