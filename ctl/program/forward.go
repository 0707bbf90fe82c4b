package program

// This file is `funet forward`: it turns connections of TCP into connections of FUNet, and the
// reverse, for programs without source.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/socket"
)

// rule is one argument: connections to from are forwarded to to.
type rule struct{ from, to end }

// end is an address with its network, OverTCP or OverFunet.
type end struct{ network, address string }

func (e end) String() string { return e.network + ":" + e.address }

// parseRule reads FROM=TO.
func parseRule(s string) (r rule, err error) {
	from, to, ok := strings.Cut(s, "=")
	if !ok {
		return r, fmt.Errorf("%q: use FROM=TO, such as tcp:127.0.0.1:8080=funet:1:80", s)
	}
	for _, e := range []struct {
		text string
		to   *end
	}{{from, &r.from}, {to, &r.to}} {
		network, address, _ := strings.Cut(e.text, ":")
		if network != OverTCP && network != OverFunet {
			return r, fmt.Errorf("%q: want tcp:HOST:PORT or funet:NODE:PORT", e.text)
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return r, fmt.Errorf("%q: %w; use tcp:HOST:PORT or funet:NODE:PORT", e.text, err)
		}
		*e.to = end{network, address}
	}
	return r, nil
}

// Forward is `funet forward`.
func Forward() *cobra.Command {
	var f Flags
	c := &cobra.Command{
		Use:   "forward FROM=TO...",
		Short: "Forward connections between TCP and FUNet, for programs without source",
		Long: `Forward connections: whoever connects to FROM is connected to TO. Each is tcp:HOST:PORT or funet:NODE:PORT;
funet::PORT is this node's. The process takes a place in a job, with funet run or with --iface, --node and --peers, and listens
until it is interrupted. All nodes of a job may have the same arguments: with

  funet run -n 2 -- funet forward tcp:127.0.0.1:8080=funet:1:80 funet::80=tcp:127.0.0.1:80

a client on node 0's host reaches the web server of node 1's host as 127.0.0.1:8080. Only processes of the job reach
what funet: listens on; a TCP address that others reach lets them in.`,
		Example: "  funet forward --iface eth1 --node 0 --peers p.yaml tcp:127.0.0.1:80=funet:1:80",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var rules []rule
			for _, a := range args {
				r, err := parseRule(a)
				if err != nil {
					return err
				}
				rules = append(rules, r)
			}
			if f.Lab != 0 {
				return errors.New("--lab: forward runs on one host; use `funet run -n N --lab -- funet forward ...`")
			}
			if err := f.Check(); err != nil {
				return err
			}
			s, _, err := openSocket(c.Context(), &f, socket.Options{})
			if err != nil {
				return err
			}
			err = forwardAll(c.Context(), rules, networks{
				listen: map[string]func(string) (net.Listener, error){
					OverTCP:   func(a string) (net.Listener, error) { return net.Listen("tcp", a) },
					OverFunet: func(a string) (net.Listener, error) { return s.Listen(socket.Network, a) },
				},
				dial: map[string]func(context.Context, string) (net.Conn, error){
					OverTCP: func(ctx context.Context, a string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "tcp", a)
					},
					OverFunet: func(ctx context.Context, a string) (net.Conn, error) {
						return s.DialContext(ctx, socket.Network, a)
					},
				}})
			return errors.Join(err, s.Close(0))
		},
	}
	f.Register(c)
	return c
}

// networks has the functions that listen and dial on each network.
type networks struct {
	listen map[string]func(address string) (net.Listener, error)
	dial   map[string]func(ctx context.Context, address string) (net.Conn, error)
}

// forwardAll listens by all rules until the context ends, which is not an error.
func forwardAll(ctx context.Context, rules []rule, n networks) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var listeners []net.Listener
	closeListeners := func() {
		for _, l := range listeners {
			_ = l.Close() // that it is closed already
		}
	}
	defer closeListeners()
	for _, r := range rules {
		l, err := n.listen[r.from.network](r.from.address)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		fmt.Fprintf(os.Stderr, "funet: forwarding %s:%v to %v\n", r.from.network, l.Addr(), r.to)
	}
	stop := context.AfterFunc(ctx, closeListeners)
	defer stop()
	var all sync.WaitGroup
	for i, l := range listeners {
		to := rules[i].to
		all.Go(func() {
			for {
				c, err := accept(ctx, l, warn)
				if err != nil {
					end(err)
					return
				}
				all.Go(func() {
					if err := forwardOne(ctx, c, func(ctx context.Context) (net.Conn, error) {
						return n.dial[to.network](ctx, to.address)
					}); err != nil && ctx.Err() == nil {
						fmt.Fprintf(os.Stderr, "funet: a connection from %v to %v: %v\n", c.RemoteAddr(), to, err)
					}
				})
			}
		})
	}
	<-ctx.Done()
	closeListeners()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// forwardDial bounds a dial.
const forwardDial = 30 * time.Second

// forwardOne joins a connection to a new one, in both directions, and returns when both have ended.
func forwardOne(ctx context.Context, from net.Conn, dial func(context.Context) (net.Conn, error)) error {
	defer from.Close()
	limited, end := context.WithTimeout(ctx, forwardDial)
	to, err := dial(limited)
	end()
	if err != nil {
		return err
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { from.Close(); to.Close() })
	defer stop()
	errs := make(chan error, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, err := io.Copy(way[1], way[0])
			if err == nil {
				err = way[1].(closeWriter).CloseWrite()
			} else { // the other way will not end by itself
				from.Close()
				to.Close()
			}
			errs <- err
		}()
	}
	return errors.Join(<-errs, <-errs)
}
