package daemon

// This file bounds the connections to the metrics. Everybody on the host can connect, each
// connection takes a descriptor and a goroutine, and their number is bounded. So the share of one
// user is bounded too: however many connections a user opens, holds or drops, others are answered.
// A connection serves one request and ends within seconds, however slow its client is.

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/netutil"
)

const (
	// mostScrapers is how many connections there can be. Further ones wait in the socket's backlog.
	mostScrapers = 64
	// userScrapers is how many of them a user can have, and userScrapes how many it can make in a
	// second. Further ones are closed.
	userScrapers = 4
	userScrapes  = 20
	// refusalPace is the time between two such closings: it bounds what a storm of them costs.
	refusalPace = time.Millisecond
	// scrapeTime bounds each part of a connection's life: waiting for the request and reading it,
	// and answering it.
	scrapeTime = 2 * time.Second
)

// scrapeServer returns a server for a handler, without keep-alive.
func scrapeServer(h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime, IdleTimeout: scrapeTime,
		MaxHeaderBytes: 16 << 10}
	s.SetKeepAlivesEnabled(false)
	return s
}

// scrapers wraps a listener, so that it accepts only connections within the limits of users.
func scrapers(l net.Listener) net.Listener {
	return netutil.LimitListener(&fair{Listener: l, of: accountOf, users: map[uint32]*scraper{}}, mostScrapers)
}

// fair is a listener that accepts a bounded number of a user's connections, at a time and in a
// second, and closes others.
type fair struct {
	net.Listener
	of    func(net.Conn) (uid uint32, known bool)
	mu    sync.Mutex
	users map[uint32]*scraper // that have connections, or had some within a second
}

type scraper struct {
	open  int
	begun int       // number within the second
	since time.Time // the second's beginning
}

// Accept returns the next connection of a user that may have one.
func (f *fair) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, known := f.of(c)
		if !known {
			return c, nil // its user is unknown: only the number of all connections is bounded
		}
		if f.admit(uid, time.Now()) {
			return &admitted{Conn: c, end: sync.OnceFunc(func() { f.leave(uid) })}, nil
		}
		c.Close()
		time.Sleep(refusalPace)
	}
}

// admit counts a connection of a user, if the user may have one more.
func (f *fair) admit(uid uint32, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, s := range f.users {
		if s.open == 0 && now.Sub(s.since) >= time.Second {
			delete(f.users, other)
		}
	}
	s := f.users[uid]
	if s == nil {
		s = &scraper{since: now}
		f.users[uid] = s
	}
	if now.Sub(s.since) >= time.Second {
		s.begun, s.since = 0, now
	}
	if s.open >= userScrapers || s.begun >= userScrapes {
		return false
	}
	s.open++
	s.begun++
	return true
}

// leave counts the end of a connection.
func (f *fair) leave(uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users[uid].open--
}

type admitted struct {
	net.Conn
	end func()
}

func (a *admitted) Close() error {
	err := a.Conn.Close()
	a.end()
	return err
}

// accountOf asks the kernel for the user at the other end of a connection. For a Unix socket it is
// the user that connected (unix(7)), for loopback the owner of the socket (sock_diag(7)).
func accountOf(c net.Conn) (uid uint32, known bool) {
	if u, ok := c.(*net.UnixConn); ok {
		p, err := peerOf(u)
		return p.uid, err == nil
	}
	s, err := netlink.SocketGet(c.RemoteAddr(), c.LocalAddr())
	if err != nil {
		return 0, false
	}
	return s.UID, true
}
