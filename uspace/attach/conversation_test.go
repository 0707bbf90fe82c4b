package attach_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/attach"
)

// answering listens on a socket and hands the first connection to serve.
func answering(t *testing.T, serve func(*net.UnixConn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return path
}

// heard returns what a client sent.
func heard(t *testing.T, c *net.UnixConn) []byte {
	m, _, err := attach.Receive(c, make([]byte, attach.MaxMessage), 0)
	if err != nil {
		t.Error(err)
	}
	return m
}

func TestCall(t *testing.T) {
	type word struct{ Text string }
	reply := func(body string) func(*net.UnixConn) {
		return func(c *net.UnixConn) {
			body, err := attach.EncodeBody(attach.KindTrace|attach.AnswerBit, []byte(body))
			if got, e := attach.DecodeBody(heard(t, c), attach.KindTrace); e != nil || string(got) != `{"Text":"ask"}` {
				t.Errorf("the daemon heard %q, %v", got, e)
			}
			if err == nil {
				err = attach.Send(c, body)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	call := func(ctx context.Context, socket string) (string, error) {
		var a word
		err := attach.Call(ctx, socket, attach.KindTrace, time.Minute, word{"ask"}, &a)
		return a.Text, err
	}
	t.Run("answer", func(t *testing.T) {
		if got, err := call(t.Context(), answering(t, reply(`{"Text":"answer"}`))); got != "answer" || err != nil {
			t.Fatalf("answer %q, %v", got, err)
		}
	})
	t.Run("other version", func(t *testing.T) {
		if _, err := call(t.Context(), answering(t, reply(`"text"`))); err == nil ||
			!strings.Contains(err.Error(), "same version") {
			t.Fatalf("error %v, want one that says what to do", err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		if _, err := call(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, attach.ErrNoDaemon) {
			t.Fatalf("error %v, want ErrNoDaemon", err)
		}
		if _, err := call(t.Context(), "/dev/null"); !errors.Is(err, attach.ErrNoDaemon) {
			t.Fatalf("error %v, want ErrNoDaemon", err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		if _, err := call(t.Context(), answering(t, func(c *net.UnixConn) { heard(t, c) })); !errors.Is(err,
			attach.ErrLost) {
			t.Fatalf("error %v, want ErrLost", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		socket := answering(t, func(c *net.UnixConn) {
			heard(t, c)
			cancel(cause)
			// until the client has gone
			_, _, _ = attach.Receive(c, make([]byte, attach.MaxMessage), 0)
		})
		if _, err := call(ctx, socket); !errors.Is(err, cause) {
			t.Fatalf("error %v, want the context's", err)
		}
	})
}
