package program

// This file tests forwarding between networks; both are TCP here.

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Rule: what is no rule is refused with a word on what is.
func TestForwardRefuses(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"tcp:127.0.0.1:1", "FROM=TO"},
		{"127.0.0.1:1=funet:1:1", "want tcp:HOST:PORT or funet:NODE:PORT"},
		{"tcp:1=funet:1:1", "HOST:PORT"},
		{"tcp::1=funet:1", "NODE:PORT"},
		{"udp::1=funet:1:1", "want tcp:HOST:PORT or funet:NODE:PORT"},
	} {
		if _, err := parseRule(c.rule); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.rule, err, c.want)
		}
	}
	r, err := parseRule("tcp:[::1]:80=funet:3:80")
	if err != nil || r.from != (end{OverTCP, "[::1]:80"}) || r.to != (end{OverFunet, "3:80"}) {
		t.Errorf("%v, %v", r, err)
	}
}

// Rule: both ways are forwarded, each to its end, and the end of the context ends it without an
// error.
func TestForward(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b, err := io.ReadAll(c) // to the half close
				if err == nil {
					_, _ = c.Write([]byte(strings.ToUpper(string(b))))
				}
			}()
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- forwardAll(ctx, []rule{{end{OverTCP, "127.0.0.1:0"}, end{OverFunet, "1:80"}}}, networks{
			listen: map[string]func(string) (net.Listener, error){OverTCP: func(a string) (net.Listener, error) {
				l, err := net.Listen("tcp", a)
				if err == nil {
					listening <- l.Addr()
				}
				return l, err
			}},
			dial: map[string]func(context.Context, string) (net.Conn, error){
				OverFunet: func(ctx context.Context, a string) (net.Conn, error) {
					if a != "1:80" {
						t.Errorf("dialed %s", a)
					}
					return new(net.Dialer).DialContext(ctx, "tcp", server.Addr().String())
				}}})
	}()
	address := <-listening
	long := strings.Repeat("abc", 100_000)
	for range 3 {
		c, err := net.Dial("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, long); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		if err != nil || string(b) != strings.ToUpper(long) {
			t.Fatalf("%d bytes came back, %v", len(b), err)
		}
		c.Close()
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}
