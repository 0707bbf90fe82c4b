// Tests of labs whose hosts are joined by routers in the kernel: frames cross as many routers as
// the network says, whatever has failed, and nothing else crosses.

package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/topology"
)

// station is a raw socket on a host's interface.
type station struct {
	fd  int
	mac [6]byte
}

const etherFUNet = 0x88b5

func stations(t *testing.T, l *Lab) []station {
	t.Helper()
	all := make([]station, len(l.hosts))
	for i := range all {
		err := l.spaces[i].do(func() (err error) {
			s := &all[i]
			s.mac = [6]byte(l.hosts[i].Interfaces[0].MAC)
			all3 := binary.NativeEndian.Uint16([]byte{etherFUNet >> 8, etherFUNet & 0xff})
			if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all3)); err != nil {
				return err
			}
			link, err := net.InterfaceByName("fu0")
			if err != nil {
				return err
			}
			wait := unix.NsecToTimeval(int64(20 * time.Second))
			return errors.Join(unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all3, Ifindex: link.Index}),
				unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(all[i].fd) })
	}
	return all
}

// hubLab makes a lab of routers, which ends with the test, with a station on each host.
func hubLab(t *testing.T, o Options) (*Lab, *topology.Network, []station) {
	t.Helper()
	l, err := Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	n, err := o.Topology.Network(o.Hosts)
	if err != nil {
		t.Fatal(err)
	}
	return l, n, stations(t, l)
}

// frame returns a frame to an address.
func (s *station) frame(to [6]byte, text string) []byte {
	return bytes.Join([][]byte{to[:], s.mac[:], {etherFUNet >> 8, etherFUNet & 0xff}, []byte(text),
		make([]byte, 64)}, nil)
}

// send sends a frame to an address, and returns it.
func (s *station) send(t *testing.T, to [6]byte, text string) []byte {
	t.Helper()
	frame := s.frame(to, text)
	if _, err := unix.Write(s.fd, frame); err != nil {
		t.Fatal(err)
	}
	return frame
}

// receives waits for the frame.
func (s *station) receives(t *testing.T, want []byte) {
	t.Helper()
	b := make([]byte, 2048)
	n, err := unix.Read(s.fd, b)
	if err != nil || !bytes.Equal(b[:n], want) {
		t.Fatalf("received %x, %v; want %x", b[:max(n, 0)], err, want)
	}
}

// forwarded returns how many frames all routers have forwarded, and how many they have dropped.
func forwarded(t *testing.T, l *Lab) (forwarded, dropped uint64) {
	t.Helper()
	states, err := l.Routers()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		c := s.Counters
		for _, n := range c.Forwarded {
			forwarded += n
		}
		dropped += c.Stranger + c.Unrouted + c.Unknown + c.Exhausted + c.Long + c.Nowhere + c.Down + c.Forged +
			c.Unbundled
	}
	return forwarded, dropped
}

// Rule (thesis 5.4): a frame of each pair of hosts arrives with the addresses that it was sent
// with. It has crossed as many routers as the network says. That holds while any wire is broken,
// and after it is mended.
func TestHubs(t *testing.T) {
	leavesNothing(t)
	for _, c := range []struct {
		topology Topology
		hosts    int
	}{{Star, 7}, {Hypercube, 2}, {Hypercube, 16}, {FatTree, 8}, {FatTree, 16}, {Butterfly, 9}} {
		if long.Short() && c.hosts > 9 {
			continue
		}
		t.Run(fmt.Sprint(c.topology, c.hosts), func(t *testing.T) {
			l, n, all := hubLab(t, Options{Hosts: c.hosts, Topology: c.topology,
				Hashed: c.topology == FatTree && c.hosts > 8})
			exchange := func(n *topology.Network) {
				t.Helper()
				before, lost := forwarded(t, l)
				hops := 0
				for a := range all {
					for b := range all {
						way := n.Way(a, b)
						if way.Hops > 0 {
							all[b].receives(t, all[a].send(t, all[b].mac, fmt.Sprint(a, " to ", b)))
						}
						hops += way.Hops
					}
				}
				if after, more := forwarded(t, l); after-before != uint64(hops) || more != lost {
					t.Errorf("the routers have forwarded %d frames and dropped %d, want %d and none", after-before, more-lost,
						hops)
				}
			}
			exchange(n)
			for r, p := range wiresBetween(n) {
				apart, err := l.SetWire(r, p, false)
				if err != nil || len(apart) > 0 && c.hosts > 2 {
					t.Fatalf("breaking port %d of router %d: %v apart, %v", p, r, apart, err)
				}
				exchange(n.Without(func(router, port int) bool { return router == r && port == p }))
				far, at, _ := n.Wire(r, p) // a wire may be mended by either end
				if apart, err := l.SetWire(far, at, true); err != nil || len(apart) > 0 {
					t.Fatalf("mending port %d of router %d: %v apart, %v", at, far, apart, err)
				}
				if long.Short() || c.hosts == 16 {
					break
				}
			}
			exchange(n)
			// a host alone
			router, port := n.Home(1)
			apart, err := l.SetWire(router, port, false)
			if err != nil || len(apart) != c.hosts-1 {
				t.Errorf("without host 1's wire %v are apart, %v", apart, err)
			}
			// Nothing else crosses: it is the kernel's, which forwards nothing.
			before, _ := forwarded(t, l)
			frame := append(append(all[0].mac[:], all[0].mac[:]...), 0x08, 0x00)
			if _, err := unix.Write(all[0].fd, append(frame, make([]byte, 60)...)); err != nil {
				t.Fatal(err)
			}
			if after, _ := forwarded(t, l); after != before {
				t.Error("the routers forward what is not FUNet's")
			}
		})
	}
}

// Rule: of a bundle each station gets its own frame, as it was sent, and nothing else. The frames
// stay together as far as their ways do: the routers forward one frame on each wire of the tree.
func TestBundles(t *testing.T) {
	leavesNothing(t)
	for _, c := range []struct {
		topology Topology
		hosts    int
	}{{Star, 7}, {Hypercube, 16}, {FatTree, 8}, {FatTree, 16}, {Butterfly, 9}} {
		if long.Short() && c.hosts > 9 {
			continue
		}
		t.Run(fmt.Sprint(c.topology, c.hosts), func(t *testing.T) {
			l, n, all := hubLab(t, Options{Hosts: c.hosts, Topology: c.topology})
			random := rand.New(rand.NewPCG(1, uint64(c.hosts)))
			b := make([]byte, 1500)
			for range 50 {
				from := random.IntN(c.hosts)
				to := random.Perm(c.hosts)
				to = slices.DeleteFunc(to, func(h int) bool { return h == from })
				to = to[:2+random.IntN(min(len(to), arctic.MaxBundled)-1)]
				var frames [][]byte
				type way struct {
					hops int
					bits uint32
				}
				wires := map[way]bool{}
				for _, h := range to {
					frames = append(frames, all[from].frame(all[h].mac, fmt.Sprint(from, " to ", h)))
					w := n.Way(from, h)
					for hops := 1; hops <= w.Hops; hops++ {
						wires[way{hops, w.Bits & (1<<(hops*n.Width()) - 1)}] = true
					}
				}
				before, lost := forwarded(t, l)
				if _, err := unix.Write(all[from].fd, b[:arctic.PutBundle(b, frames)]); err != nil {
					t.Fatal(err)
				}
				for i, h := range to {
					all[h].receives(t, frames[i])
				}
				if after, more := forwarded(t, l); after-before != uint64(len(wires)) || more != lost {
					t.Fatalf("from host %d to %v: the routers have forwarded %d frames and dropped %d, want %d and none",
						from, to, after-before, more-lost, len(wires))
				}
			}
			for h := range all {
				mark := all[(h+1)%c.hosts].send(t, all[h].mac, "the end")
				all[h].receives(t, mark) // and nothing before it
			}
		})
	}
}

// wiresBetween yields the wires between routers, once each.
func wiresBetween(n *topology.Network) func(yield func(router, port int) bool) {
	return func(yield func(router, port int) bool) {
		for r := range n.Routers() {
			for p := range n.Radix() {
				if to, _, ok := n.End(r, p).Port(n.Radix()); ok && to > r && !yield(r, p) {
					return
				}
			}
		}
	}
}

// Rule: a named lab's routers are reached by whoever opens it, and go with it.
func TestNamedHub(t *testing.T) {
	leavesNothing(t)
	l, err := Up(Options{Hosts: 4, Topology: FatTree, Name: labName("hub")})
	if err != nil {
		t.Fatal(err)
	}
	name := l.opts.Name
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	all := stations(t, again)
	all[3].receives(t, all[0].send(t, all[3].mac, "hello"))
	if n, _ := forwarded(t, again); n != 3 {
		t.Errorf("%d frames were forwarded, want 3 for one over three routers", n)
	}
	if _, err := again.SetWire(9, 0, false); !errors.Is(err, ErrNoHost) {
		t.Errorf("a router that there is not: %v", err)
	}
	if err := again.Down(); err != nil {
		t.Fatal(err)
	}
}

// Rule: a lab without routers in the kernel says so.
func TestNoRouters(t *testing.T) {
	leavesNothing(t)
	l, err := Up(Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Routers(); !errors.Is(err, ErrNoHost) {
		t.Errorf("got %v, want ErrNoHost", err)
	}
}
