// The hot path as a user would write it: an echo between two threads, one in each namespace. It is
// a test of the rings between cores, and the benchmark of the package.

package xdp

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const echoBatch = 32

// echoOnce returns every frame that is there to its sender: received frames go to
// the tx ring as they lie in the UMEM, completed ones to the fill ring.
func (p *port) echoOnce() error {
	s := p.sock
	rx, tx, fill, completion := s.Rx(), s.Tx(), s.Fill(), s.Completion()
	if n := tx.Reserve(rx.Peek(echoBatch)); n > 0 {
		for i := range n {
			d := rx.At(i)
			if f := p.umem.Data(d); len(f) >= 12 {
				var mac [6]byte
				copy(mac[:], f)
				copy(f, f[6:12])
				copy(f[6:], mac[:])
			}
			tx.Set(i, d)
		}
		rx.Release(n)
		tx.Submit(n)
		if err := s.Kick(); err != nil && err != ErrTxPending {
			return err
		}
	}
	if n := fill.Reserve(completion.Peek(echoBatch)); n > 0 {
		for i := range n {
			fill.Set(i, completion.At(i))
		}
		completion.Release(n)
		fill.Submit(n)
	}
	return nil
}

// pingOnce sends the port's one frame and spins until it is back. It checks the
// clock every 1024 turns only.
func (p *port) pingOnce(d Desc) (Desc, error) {
	s := p.sock
	rx, tx, fill, completion := s.Rx(), s.Tx(), s.Fill(), s.Completion()
	if tx.Reserve(1) == 0 {
		return d, ErrTxPending
	}
	tx.Set(0, d)
	tx.Submit(1)
	if err := s.Kick(); err != nil {
		return d, err
	}
	var deadline time.Time
	for turn := 0; rx.Peek(1) == 0; turn++ {
		if turn&1023 == 1023 {
			switch now := time.Now(); {
			case deadline.IsZero():
				deadline = now.Add(patience)
			case now.After(deadline):
				return d, fmt.Errorf("no echo within %v", patience)
			}
		}
	}
	back := rx.At(0)
	rx.Release(1)
	for completion.Peek(1) == 1 && fill.Reserve(1) == 1 {
		fill.Set(0, completion.At(0))
		completion.Release(1)
		fill.Submit(1)
	}
	return back, nil
}

// pin puts the calling thread, which must be locked, on one CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// twoCPUs are the first two that this thread may use; the same twice if there is only one.
func twoCPUs(t testing.TB) (cpus [2]int) {
	var set unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &set))
	n := 0
	for cpu := 0; cpu < 1024 && n < 2; cpu++ {
		if set.IsSet(cpu) {
			cpus[n], n = cpu, n+1
		}
	}
	if n == 1 {
		cpus[1] = cpus[0]
	}
	return cpus
}

// echoLab is an echoing thread on host 1, and on host 0 a port and a frame for the
// caller, whose thread is pinned. stop ends the echo.
func echoLab(t testing.TB, mode AttachMode, size int) (p *port, d Desc, stop func()) {
	l := newLab(t, labOptions{})
	var ports [2]*port
	for host := range ports {
		ports[host] = l.openPort(host, portConfig{socket: SocketConfig{NeedWakeup: true}})
		ports[host].fill(128)
		l.redirect(host, mode, RedirectConfig{EtherType: testEtherType}, ports[host].sock)
	}
	cpus := twoCPUs(t)
	var quit atomic.Bool
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the pinned thread ends with the goroutine
		err := pin(cpus[1])
		for err == nil && !quit.Load() {
			err = ports[1].echoOnce()
			if cpus[0] == cpus[1] {
				runtime.Gosched()
			}
		}
		done <- err
	}()
	must(t, pin(cpus[0])) // the lab's thread ends with the test
	p = ports[0]
	addr, _ := p.free.Get()
	d = Desc{Addr: addr, Len: uint32(copy(p.umem.Span(addr, 2048), testFrame(0, 1, size)))}
	return p, d, func() { quit.Store(true); must(t, <-done) }
}

// Frames survive many rounds between two threads, and each round's frame is the
// one that was sent in it.
func TestEchoBetweenThreads(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		t.Run(mode.String(), func(t *testing.T) {
			p, d, stop := echoLab(t, mode, 64)
			defer stop()
			for i := range 3000 {
				want := testFrame(0, i, 60+i%100)
				d.Len = uint32(copy(p.umem.Span(d.Addr, 2048), want))
				var err error
				d, err = p.pingOnce(d)
				must(t, err)
				got := p.umem.Data(d)
				copy(want[:6], labMAC[0])
				copy(want[6:12], labMAC[1])
				if !bytes.Equal(got, want) {
					t.Fatalf("round %d: got %x, want %x", i, got, want)
				}
			}
		})
	}
}

// The hot path allocates nothing, in the library or to report that nothing happened.
func TestHotPathAllocatesNothing(t *testing.T) {
	l := newLab(t, labOptions{})
	var ports [2]*port
	for host := range ports {
		ports[host] = l.openPort(host, portConfig{})
		ports[host].fill(64)
		l.redirect(host, AttachGeneric, RedirectConfig{EtherType: testEtherType}, ports[host].sock)
	}
	a, b := ports[0], ports[1]
	addr, _ := a.free.Get()
	d := Desc{Addr: addr, Len: uint32(copy(a.umem.Span(addr, 2048), testFrame(0, 1, 64)))}
	var fault error
	rounds := 0
	allocs := testing.AllocsPerRun(200, func() {
		rounds++
		tx := a.sock.Tx()
		tx.Reserve(1)
		tx.Set(0, d)
		tx.Submit(1)
		if err := a.sock.Kick(); err != nil {
			fault = err
		}
		for spin := 0; a.sock.Rx().Peek(1) == 0 && spin < 1e6; spin++ {
			if err := b.echoOnce(); err != nil {
				fault = err
			}
		}
		if a.sock.Rx().Peek(1) == 0 {
			fault = fmt.Errorf("no echo in round %d", rounds)
		}
		d = a.sock.Rx().At(0)
		a.sock.Rx().Release(1)
		if err := a.sock.WakeRx(); err != nil {
			fault = err
		}
		completion, fill := a.sock.Completion(), a.sock.Fill()
		n := completion.Peek(echoBatch)
		fill.Reserve(n)
		for i := range n {
			fill.Set(i, completion.At(i))
		}
		completion.Release(n)
		fill.Submit(n)
	})
	must(t, fault)
	if allocs != 0 {
		t.Fatalf("%v allocations a round trip", allocs)
	}
	l.setDown(0)
	tx := a.sock.Tx()
	tx.Reserve(1)
	tx.Set(0, d)
	tx.Submit(1)
	if allocs := testing.AllocsPerRun(100, func() { fault = a.sock.Kick() }); allocs != 0 || fault != ErrNetDown {
		t.Fatalf("%v allocations, %v", allocs, fault)
	}
}

// BenchmarkEcho is one round trip of a frame between two spinning threads on two
// cores, two kicks. p50-ns is the figure to compare: means are the neighbours'.
func BenchmarkEcho(b *testing.B) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative} {
		for _, size := range []int{64, 1500} {
			b.Run(fmt.Sprintf("%s/%dB", mode, size), func(b *testing.B) {
				p, d, stop := echoLab(b, mode, size)
				defer stop()
				times := make([]time.Duration, b.N)
				var err error
				for range 100 { // warm up
					d, err = p.pingOnce(d)
					must(b, err)
				}
				b.ResetTimer()
				before := time.Now()
				for i := range times {
					if d, err = p.pingOnce(d); err != nil {
						b.Fatal(err)
					}
					copy(p.umem.Span(d.Addr, 2048), labMAC[1])
					now := time.Now()
					times[i], before = now.Sub(before), now
				}
				b.StopTimer()
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
				b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
			})
		}
	}
}
