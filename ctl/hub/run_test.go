package hub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/hub"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/topology"
)

// Rule: a router knows the state of its links also after more has changed at once than the kernel
// keeps for it.
func TestMoreChangesThanTheKernelKeeps(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	n, err := topology.Star(2)
	if err != nil {
		t.Fatal(err)
	}
	name := l.Hosts()[0].Interfaces[0].Name
	var beside *netlink.Handle // in the namespace of the router
	if err := l.Do(0, func() (err error) { beside, err = netlink.NewHandle(); return err }); err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	link, err := beside.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	told, ended := make(chan string), make(chan error, 1)
	go func() {
		ended <- l.Do(0, func() error {
			_, err := hub.Run(ctx, hub.Config{Network: n, Stations: [][6]byte{{2, 1}, {}},
				Ports: map[int]string{0: name}, Tell: func(line string) {
					select { // the router waits until it is heard
					case told <- line:
					case <-ctx.Done():
					}
				}})
			return err
		})
	}()
	hears := func(what string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case line := <-told:
				if strings.Contains(line, what) {
					return
				}
			case err := <-ended:
				t.Fatalf("%q: the router has ended: %v", what, err)
			case <-deadline:
				t.Fatalf("in vain: %q", what)
			}
		}
	}
	hears("to host 0")
	err = beside.LinkSetDown(link)
	for i := range 5000 { // none of them is read: the router waits to say that its port is down
		err = errors.Join(err, beside.LinkSetMTU(link, 1400+i%2))
	}
	if err = errors.Join(err, beside.LinkSetUp(link)); err != nil {
		t.Fatal(err)
	}
	hears("is down")
	hears("is up")
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
