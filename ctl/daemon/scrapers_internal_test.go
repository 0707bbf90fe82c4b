package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/tests/long"
)

// as runs f on a thread that is another user, and ends the thread.
func as(t *testing.T, uid int, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: nobody else gets the thread
		if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// connect connects as a user.
func connect(t *testing.T, uid int, at net.Addr) (c net.Conn) {
	t.Helper()
	family, address := unix.AF_UNIX, unix.Sockaddr(&unix.SockaddrUnix{Name: at.String()})
	if tcp, ok := at.(*net.TCPAddr); ok {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}
	}
	as(t, uid, func() error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, address); err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "connection")
		defer f.Close()
		c, err = net.FileConn(f)
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// scrape asks for the metrics as a user, and fails when he is not answered in the time that a
// collector has.
func scrape(t *testing.T, uid int, at net.Addr) error {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return connect(t, uid, at), nil
		}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://funid/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "metrics" {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// Rule: a user who opens connections to the metrics and leaves them idle, or reads nothing, takes
// no other user's, over a Unix socket as over loopback, and has some himself when he lets them go
// or they have ended.
func TestIdleScrapersBlockNobody(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				// Where other users may go.
				address = filepath.Join("/tmp", fmt.Sprintf("funid-scrapers-%d.sock", unix.Getpid()))
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			if network == "unix" {
				if err := unix.Chmod(address, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			server := scrapeServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "metrics")
			}))
			ended := make(chan error)
			go func() { ended <- server.Serve(scrapers(l)) }()
			defer func() {
				server.Close()
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			}()
			const rude, polite = 61001, 61002
			if err := scrape(t, polite, l.Addr()); err != nil {
				t.Fatal(err)
			}
			var idle []net.Conn
			for range 300 {
				idle = append(idle, connect(t, rude, l.Addr()))
			}
			for range 3 {
				if err := scrape(t, polite, l.Addr()); err != nil {
					t.Error("beside idle connections:", err)
				}
			}
			for _, c := range idle {
				c.Close()
			}
			// What he held has ended, and the second in which he made too many.
			deadline := time.Now().Add(time.Minute)
			for err := scrape(t, rude, l.Addr()); err != nil; err = scrape(t, rude, l.Addr()) {
				if time.Now().After(deadline) {
					t.Fatal("afterwards:", err)
				}
			}
		})
	}
}

// Rule: a connection that sends no request, or a slow one, is ended by the server.
func TestSlowScraperIsEnded(t *testing.T) {
	long.Test(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := scrapeServer(http.NotFoundHandler())
	go func() { _ = server.Serve(scrapers(l)) }()
	defer server.Close()
	for _, begins := range []string{"", "GET /metrics HTTP/1.1\r\nHost:"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, begins); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); errors.Is(err, unix.EAGAIN) || err != nil && err.(net.Error).Timeout() {
			t.Errorf("%q: still open after a minute", begins)
		}
	}
}

// Rule: a user has at most userScrapers at a time and userScrapes in a second, whatever others do,
// and a user who has none is forgotten.
func TestAdmission(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fair{users: map[uint32]*scraper{}}
		now := time.Unix(1e6, 0)
		open, begun := map[uint32]int{}, map[uint32][]time.Time{}
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			uid := rapid.Uint32Range(0, 3).Draw(t, "user")
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0, 1:
				if f.admit(uid, now) {
					open[uid]++
					begun[uid] = append(begun[uid], now)
				}
			case 2:
				if open[uid] > 0 {
					f.leave(uid)
					open[uid]--
				}
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			}
			if open[uid] > userScrapers {
				t.Fatalf("user %d has %d", uid, open[uid])
			}
			n := 0
			for _, at := range begun[uid] {
				if now.Sub(at) < time.Second {
					n++
				}
			}
			if n > 2*userScrapes { // two halves of two seconds
				t.Fatalf("user %d made %d in a second", uid, n)
			}
		}
		for uid, n := range open {
			for range n {
				f.leave(uid)
			}
		}
		if !f.admit(9, now.Add(2*time.Second)) || len(f.users) != 1 {
			t.Fatalf("a new user finds %d others", len(f.users)-1)
		}
	})
}
