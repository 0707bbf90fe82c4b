package conformance

// This file runs QUIC (RFC 9000) by quic-go over packet connections.

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"testing"
	"time"

	"github.com/funet/funet/uspace/socket"
	"github.com/quic-go/quic-go"
)

const (
	quicProtocol = "echo"
	// quicBytes is how long what is echoed is: many packets, and several windows of QUIC's.
	quicBytes = 4 << 20
)

// Rule: QUIC echoes a stream over our packet connections without an error.
func TestQUIC(t *testing.T) {
	for _, kind := range []string{veth, daemons} {
		t.Run(kind, func(t *testing.T) { echoQUIC(t, newBed(t, kind)) })
	}
}

func echoQUIC(t *testing.T, b *bed) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, err := b.stacks[1].ListenPacket(socket.Network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := b.stacks[0].ListenPacket(socket.Network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	certificate, roots := selfSigned(t)
	l, err := quic.Listen(server, &tls.Config{Certificates: []tls.Certificate{certificate},
		NextProtos: []string{quicProtocol}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	echoed := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			echoed <- err
			return
		}
		s, err := c.AcceptStream(ctx)
		if err == nil {
			_, err = io.Copy(s, s)
		}
		if err == nil {
			err = s.Close()
		}
		echoed <- err
	}()
	c, err := quic.Dial(ctx, client, server.LocalAddr(),
		&tls.Config{RootCAs: roots, ServerName: "funet", NextProtos: []string{quicProtocol}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := make([]byte, quicBytes)
	_, _ = rand.Read(sent) // it never fails
	written := make(chan error, 1)
	begin := time.Now()
	go func() {
		_, err := s.Write(sent)
		if err == nil {
			err = s.Close()
		}
		written <- err
	}()
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back, %v", len(got), len(sent), err)
	}
	took := time.Since(begin)
	for what, ended := range map[string]<-chan error{"the echo": echoed, "writing": written} {
		if err := await(t, what, ended); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.CloseWithError(0, ""); err != nil {
		t.Error(err)
	}
	report(t, "quic_"+b.kind, map[string]float64{"echo_gbit_per_s": quicBytes * 8 / float64(took.Nanoseconds())})
}

// selfSigned makes a certificate.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"funet"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
