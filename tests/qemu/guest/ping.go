package guest

// This file is `guest ping N EVERY`: it sends echo requests to the other guest and counts the
// answers. It names the lost ones, because the time of a loss tells its cause.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
)

// Pings is the JSON document of `guest ping`.
type Pings struct {
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	P50      float64 `json:"rtt_p50_us"`
	Longest  float64 `json:"rtt_max_us"`
	// Lost are the numbers, from 0, of the first pings that never came back.
	Lost []int `json:"lost,omitempty"`
}

const (
	// pingPatience is how long the process waits for the last answers.
	pingPatience = 5 * time.Second
	// mostLost is the largest number of lost pings that are named.
	mostLost   = 100
	protocolV4 = 1 // ICMP (RFC 792)
)

// ping sends the echo requests and counts the answers.
func ping(args []string) (*Pings, error) {
	n, every, err := between(args)
	if err != nil {
		return nil, err
	}
	peer, err := peerAddress()
	if err != nil {
		return nil, err
	}
	c, err := icmp.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	id := os.Getpid() & 0xffff
	sent := make([]time.Time, n)
	answered := make(chan []time.Time, 1)
	begin := time.Now()
	if err := c.SetReadDeadline(begin.Add(time.Duration(n)*every + pingPatience)); err != nil {
		return nil, err
	}
	go func() { answered <- hear(c, id, n) }()
	var refused error
	for i := range sent {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * every)))
		sent[i] = time.Now()
		m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: i, Data: make([]byte, 48)}}
		b, err := m.Marshal(nil)
		if err != nil {
			return nil, err
		}
		if _, err := c.WriteTo(b, &net.IPAddr{IP: peer}); err != nil {
			refused = err // it counts as lost: an interface may have no link
		}
	}
	came := <-answered
	p := &Pings{Sent: n}
	var times []time.Duration
	for i, t := range came {
		if t.IsZero() {
			if len(p.Lost) < mostLost {
				p.Lost = append(p.Lost, i)
			}
			continue
		}
		times = append(times, t.Sub(sent[i]))
	}
	p.Received = len(times)
	if len(times) > 0 {
		slices.Sort(times)
		p.P50, p.Longest = float64(times[len(times)/2])/1000, float64(times[len(times)-1])/1000
	}
	if p.Received == 0 && refused != nil {
		return p, refused
	}
	return p, nil
}

// hear receives answers until all have arrived, or the deadline has passed.
func hear(c *icmp.PacketConn, id, n int) []time.Time {
	came := make([]time.Time, n)
	b := make([]byte, 1500)
	for left := n; left > 0; {
		size, _, err := c.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return came
		}
		if err != nil {
			continue // of one that did not arrive
		}
		m, err := icmp.ParseMessage(protocolV4, b[:size])
		if err != nil || m.Type != ipv4.ICMPTypeEchoReply {
			continue
		}
		if e, ok := m.Body.(*icmp.Echo); ok && e.ID == id && e.Seq < n && came[e.Seq].IsZero() {
			came[e.Seq] = time.Now()
			left--
		}
	}
	return came
}

// peerAddress returns the address of the other guest.
func peerAddress() (net.IP, error) {
	host, err := hostNumber()
	if err != nil {
		return nil, err
	}
	if host > 1 {
		return nil, fmt.Errorf("host %d has no peer", host)
	}
	return Address(1 - host), nil
}
