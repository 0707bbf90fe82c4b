package program

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// failing is a listener whose first Accepts fail.
type failing struct {
	net.Listener
	first []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.first) == 0 {
		return f.Listener.Accept()
	}
	err := f.first[0]
	f.first = f.first[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: f.Addr(), Err: os.NewSyscallError("accept4", err)}
}

// Rule (accept): a failure that passes ends nothing: forwarding goes on when there are descriptors
// again. Others end it.
func TestForwardOutlivesEMFILE(t *testing.T) {
	for _, c := range []struct {
		first []error
		want  error
	}{
		{[]error{unix.EMFILE, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED}, nil},
		{[]error{unix.EMFILE, unix.EINVAL}, unix.EINVAL},
	} {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		listening, ended := make(chan net.Addr, 1), make(chan error, 1)
		go func() {
			ended <- forwardAll(ctx, []rule{{end{OverTCP, "127.0.0.1:0"}, end{OverTCP, "server"}}}, networks{
				listen: map[string]func(string) (net.Listener, error){OverTCP: func(a string) (net.Listener, error) {
					l, err := net.Listen("tcp", a)
					if err == nil {
						listening <- l.Addr()
					}
					return &failing{l, c.first}, err
				}},
				dial: map[string]func(context.Context, string) (net.Conn, error){
					OverTCP: func(ctx context.Context, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "tcp", server.Addr().String())
					}}})
		}()
		address := <-listening
		if c.want == nil {
			client, err := net.Dial("tcp", address.String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(client, "still here"); err != nil {
				t.Fatal(err)
			}
			client.(*net.TCPConn).CloseWrite()
			to, err := server.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(to); err != nil || string(b) != "still here" {
				t.Errorf("%q, %v", b, err)
			}
			to.Close()
			client.Close()
			stop()
		}
		select {
		case err := <-ended:
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		case <-time.After(time.Minute):
			t.Fatal("it goes on")
		}
	}
}

// Rule (accept): it says once why it waits, with the cure, and a context ends the wait.
func TestAcceptSaysOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var told []string
	tell := func(line string) { told = append(told, line) }
	c, err := accept(t.Context(), &failing{l, []error{unix.ECONNABORTED, unix.EMFILE, unix.EMFILE, unix.ENFILE}}, tell)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if len(told) != 1 || !strings.Contains(told[0], "too many open files") || !strings.Contains(told[0], "ulimit -n") {
		t.Errorf("it said %q", told)
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err = accept(ctx, &failing{l, []error{unix.EMFILE, unix.EMFILE}}, func(string) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}
