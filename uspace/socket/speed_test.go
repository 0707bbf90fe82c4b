package socket_test

// This file measures: go test -bench . ./uspace/socket. Both ends are in this process.

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/socket"
)

// BenchmarkRoundTrip measures 64 bytes there and back, over FUNet and over TCP on the same veth.
func BenchmarkRoundTrip(b *testing.B) {
	stacks, l := openPair(b, socket.Options{})
	c, a := connect(b, stacks)
	tc, ta := connectTCP(b, l)
	for name, ends := range map[string][2]net.Conn{"FUNet": {c, a}, "TCP": {tc, ta}} {
		b.Run(name, func(b *testing.B) {
			roundTrips(b, ends[0], ends[1], 64)
		})
	}
}

func roundTrips(b *testing.B, c, a net.Conn, size int) {
	done := make(chan error, 1)
	go func() {
		buffer := make([]byte, size)
		for range b.N {
			if _, err := io.ReadFull(a, buffer); err != nil {
				done <- err
				return
			}
			if _, err := a.Write(buffer); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	buffer := make([]byte, size)
	times := hdrhistogram.New(1, int64(time.Second), 3)
	for range b.N {
		start := time.Now()
		if _, err := c.Write(buffer); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buffer); err != nil {
			b.Fatal(err)
		}
		_ = times.RecordValue(int64(time.Since(start)))
	}
	b.ReportMetric(float64(times.ValueAtQuantile(50)), "p50-ns")
	b.ReportMetric(float64(times.ValueAtQuantile(99)), "p99-ns")
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBulk measures 1 MiB written and read.
func BenchmarkBulk(b *testing.B) {
	stacks, l := openPair(b, socket.Options{})
	c, a := connect(b, stacks)
	tc, ta := connectTCP(b, l)
	for name, ends := range map[string][2]net.Conn{"FUNet": {c, a}, "TCP": {tc, ta}} {
		b.Run(name, func(b *testing.B) {
			const size = 1 << 20
			b.SetBytes(size)
			done := make(chan error, 1)
			go func() {
				_, err := io.CopyN(io.Discard, struct{ io.Reader }{ends[1]}, size*int64(b.N))
				done <- err
			}()
			buffer := make([]byte, size)
			for range b.N {
				if _, err := ends[0].Write(buffer); err != nil {
					b.Fatal(err)
				}
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// connectTCP makes a TCP connection between the hosts of a lab.
func connectTCP(b *testing.B, l *lab.Lab) (c, a net.Conn) {
	b.Helper()
	var listener net.Listener
	hosts := l.Hosts()
	err := l.Do(1, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(hosts[1].Interfaces[0].Addr.Addr().String(), "0"))
		return err
	})
	if err == nil {
		err = l.Do(0, func() (err error) {
			c, err = net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
			return err
		})
	}
	if err == nil {
		a, err = listener.Accept()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(); a.Close(); listener.Close() })
	return c, a
}
