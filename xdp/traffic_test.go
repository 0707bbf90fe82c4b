// Real frames over veth: every attach mode, wakeup mode and size, both ways.

package xdp

import (
	"bytes"
	"fmt"
	"testing"
)

// Frames of every size cross in both directions unchanged and in order
// (af_xdp.rst: the rings are FIFO, frames are not touched).
func TestTrafficBothWays(t *testing.T) {
	for _, mode := range []AttachMode{AttachGeneric, AttachNative, AttachAuto} {
		for _, bind := range []BindMode{BindCopy, BindAuto} {
			for _, wakeup := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/wakeup=%v", mode, bind, wakeup), func(t *testing.T) {
					l := newLab(t, labOptions{})
					c := portConfig{socket: SocketConfig{Bind: bind, NeedWakeup: wakeup}}
					var ports [2]*port
					for host := range ports {
						ports[host] = l.openPort(host, c)
						ports[host].fill(128)
						a := l.redirect(host, mode, RedirectConfig{EtherType: testEtherType}, ports[host].sock)
						if mode != AttachAuto && a.Mode() != mode || mode == AttachAuto && a.Mode() != AttachNative {
							t.Fatalf("asked for %s, got %s", mode, a.Mode())
						}
						if info := ports[host].sock.Info(); info.Mode != BindCopy || info.NeedWakeup != wakeup ||
							(info.ZeroCopyErr != nil) != (bind == BindAuto) {
							t.Fatalf("info %+v", info)
						}
					}
					for from := range ports {
						exchange(t, ports[from], ports[1-from], from, 14, 15, 60, 64, 65, 1024, 1513, 1514)
					}
				})
			}
		}
	}
}

// Busy polling is asked for with three socket options, and Info says whether all
// were accepted; a refusal does not stop the socket.
func TestBusyPoll(t *testing.T) {
	for _, c := range []struct {
		ask BusyPoll
		ok  bool
	}{
		{BusyPoll{Micros: 20, Budget: 16, Prefer: true}, true},
		{BusyPoll{Micros: -1}, false},
		{BusyPoll{Micros: 20, Budget: 1 << 20, Prefer: true}, false},
	} {
		l := newLab(t, labOptions{})
		var ports [2]*port
		for host := range ports {
			ports[host] = l.openPort(host, portConfig{socket: SocketConfig{BusyPoll: c.ask}})
			if i := ports[host].sock.Info(); i.BusyPoll != c.ok || (i.BusyPollErr == nil) != c.ok {
				t.Fatalf("%+v: accepted %v, %v", c.ask, i.BusyPoll, i.BusyPollErr)
			}
			ports[host].fill(128)
			l.redirect(host, AttachNative, RedirectConfig{}, ports[host].sock)
		}
		exchange(t, ports[0], ports[1], 0, 60, 1514)
		exchange(t, ports[1], ports[0], 1, 60, 1514)
	}
}

// exchange sends one frame of each size in one batch and checks their bytes.
func exchange(t *testing.T, src, dst *port, from int, sizes ...int) {
	t.Helper()
	var frames [][]byte
	for i, size := range sizes {
		frames = append(frames, testFrame(from, i, size))
	}
	must(t, src.send(frames...))
	for i, got := range dst.receive(len(frames)) {
		if !bytes.Equal(got, frames[i]) {
			t.Fatalf("frame %d: sent %x, got %x", i, frames[i], got)
		}
	}
	eventually(t, "every sent frame is completed", func() bool { src.complete(); return src.free.Len() == 128 })
}
