package guest

// This file is `guest tcp FOR`: a TCP stream to the other guest, by the kernels' own TCP. The other
// guest's first process receives it and answers how much arrived.

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// TCP is the JSON document of `guest tcp`, with the receiver's count.
type TCP struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"mbyte_per_s"` // 10^6 bytes
}

const (
	tcpPort = 5001
	// tcpPatience bounds connecting, and the wait for the receiver's count.
	tcpPatience = 30 * time.Second
)

// sink takes streams from the other guest.
func sink() {
	l, err := net.Listen("tcp4", fmt.Sprintf(":%d", tcpPort))
	if err == nil {
		err = take(l)
	}
	fmt.Fprintln(os.Stderr, "guest:", err)
}

// take receives streams until the listener fails. It answers each with the number of bytes that
// arrived, and the time that they took.
func take(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			begin := time.Now()
			n, err := io.Copy(io.Discard, c)
			if err != nil {
				return // the sender sees that
			}
			var count [16]byte
			binary.LittleEndian.PutUint64(count[:], uint64(n))
			binary.LittleEndian.PutUint64(count[8:], uint64(time.Since(begin)))
			_, _ = c.Write(count[:]) // as above
		}()
	}
}

// stream sends a stream to the other guest for the time that the argument says.
func stream(args []string) (*TCP, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%q: say for how long", args)
	}
	long, err := time.ParseDuration(args[0])
	if err != nil {
		return nil, err
	}
	peer, err := peerAddress()
	if err != nil {
		return nil, err
	}
	return send(net.JoinHostPort(peer.String(), fmt.Sprint(tcpPort)), long)
}

// send sends for a time, and returns the receiver's count.
func send(address string, long time.Duration) (*TCP, error) {
	c, err := net.DialTimeout("tcp4", address, tcpPatience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	end := time.Now().Add(long)
	if err := c.SetDeadline(end.Add(tcpPatience)); err != nil {
		return nil, err
	}
	piece := make([]byte, 64<<10)
	for time.Now().Before(end) {
		if _, err := c.Write(piece); err != nil {
			return nil, fmt.Errorf("sending: %w", err)
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	var count [16]byte
	if _, err := io.ReadFull(c, count[:]); err != nil {
		return nil, fmt.Errorf("waiting for the receiver's count: %w", err)
	}
	t := &TCP{Bytes: int64(binary.LittleEndian.Uint64(count[:])),
		Seconds: time.Duration(binary.LittleEndian.Uint64(count[8:])).Seconds()}
	t.Rate = float64(t.Bytes) / 1e6 / max(t.Seconds, 1e-9)
	return t, nil
}
