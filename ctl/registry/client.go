package registry

// This file reaches etcd.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/stats"

	"github.com/funet/funet/ctl/config"
)

const (
	dialWithin = 3 * time.Second
	aliveEvery = 5 * time.Second // between two pings of a quiet connection
	mostFile   = 64 << 10        // bytes of a file of certificates
	// mostAnswer bounds an answer of etcd in bytes: a page, or the events of one moment.
	mostAnswer = 8 << 20
)

// breaks tells of connections to members of etcd that were made again. etcd's client resumes what
// it did before without a word, also with an etcd that was restored meanwhile.
type breaks struct {
	mu     sync.Mutex
	known  map[string]bool // addresses that were connected to; as many as there are endpoints
	mended chan struct{}   // has one if there was a break
}

type connAddress struct{}

func newBreaks() *breaks { return &breaks{known: map[string]bool{}, mended: make(chan struct{}, 1)} }

// TagConn implements stats.Handler.
func (b *breaks) TagConn(ctx context.Context, i *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connAddress{}, i.RemoteAddr.String())
}

// HandleConn implements stats.Handler.
func (b *breaks) HandleConn(ctx context.Context, s stats.ConnStats) {
	at, ok := ctx.Value(connAddress{}).(string)
	if _, begins := s.(*stats.ConnBegin); !ok || !begins {
		return
	}
	b.mu.Lock()
	again := b.known[at]
	b.known[at] = true
	b.mu.Unlock()
	if again {
		select {
		case b.mended <- struct{}{}:
		default:
		}
	}
}

// TagRPC implements stats.Handler.
func (b *breaks) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (b *breaks) HandleRPC(context.Context, stats.RPCStats) {}

// dial makes a client. It does not wait for etcd.
func dial(e *config.Etcd, b *breaks) (*clientv3.Client, error) {
	secure, err := tlsOf(e)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	c := clientv3.Config{DialTimeout: dialWithin, DialKeepAliveTime: aliveEvery, DialKeepAliveTimeout: dialWithin,
		TLS: secure, Logger: zap.NewNop(), MaxCallRecvMsgSize: mostAnswer,
		DialOptions: []grpc.DialOption{grpc.WithStatsHandler(b), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: leastPause, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: mostPause},
			MinConnectTimeout: dialWithin})}}
	for _, at := range e.Endpoints {
		c.Endpoints = append(c.Endpoints, scheme+at)
	}
	if e.User != "" {
		if c.Username, c.Password, err = userOf(e.User); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("reaching etcd: %w", err)
	}
	return client, nil
}

// tlsOf returns how to authenticate etcd and this host; nil: TLS is not used.
func tlsOf(e *config.Etcd) (*tls.Config, error) {
	if e.CA == "" {
		return nil, nil
	}
	pem, err := readFile(e.CA)
	if err != nil {
		return nil, fmt.Errorf("etcd: ca: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("etcd: ca: %s has no certificate in PEM: %w", e.CA, config.ErrConfig)
	}
	if e.Cert != "" {
		own, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd: cert %s and key %s: %w: %w", e.Cert, e.Key, err, config.ErrConfig)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// userOf reads name and password of etcd's user. Nobody else may read the file.
func userOf(path string) (name, password string, err error) {
	b, err := readFile(path)
	if err != nil {
		return "", "", fmt.Errorf("etcd: user: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&0o077 != 0 {
		return "", "", fmt.Errorf("etcd: user: %s may be read by others; chmod 600 it: %w", path, config.ErrConfig)
	}
	name, password, ok := strings.Cut(strings.TrimSuffix(string(b), "\n"), ":")
	if !ok || name == "" || password == "" || strings.Contains(password, "\n") {
		return "", "", fmt.Errorf("etcd: user: %s is not one line, name:password: %w", path, config.ErrConfig)
	}
	return name, password, nil
}

func readFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, config.ErrConfig)
	}
	if !st.Mode().IsRegular() || st.Size() > mostFile {
		return nil, fmt.Errorf("%s is no file of up to %d bytes: %w", path, mostFile, config.ErrConfig)
	}
	return os.ReadFile(path)
}
