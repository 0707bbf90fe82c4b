package registry_test

// This file tests who may do what in etcd: TLS, users and their roles.

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/tests/etcd"
)

// authority writes ca.pem, and for each name a certificate that it has signed, and its key.
func authority(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	root := key()
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &root.PublicKey, root)
	write("ca.pem", "CERTIFICATE", der, err)
	for i, name := range names {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 2), Subject: pkix.Name{CommonName: name},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		own := key()
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &own.PublicKey, root)
		write(name+".pem", "CERTIFICATE", der, err)
		der, err = x509.MarshalECPrivateKey(own)
		write(name+".key", "EC PRIVATE KEY", der, err)
	}
	return dir
}

// Rule: with TLS and certificates of hosts a host with one is a member, and a host without one, or
// with another authority's, is told that etcd does not answer it.
func TestTLS(t *testing.T) {
	dir, other := authority(t, "etcd", "host"), authority(t, "host")
	file := func(name string) string { return filepath.Join(dir, name) }
	s := etcd.Start(t, "--client-cert-auth", "--trusted-ca-file", file("ca.pem"), "--cert-file", file("etcd.pem"),
		"--key-file", file("etcd.key"))
	with := func(ca, cert, key string) registry.Options {
		o := options(s, 0)
		o.Etcd.CA, o.Etcd.Cert, o.Etcd.Key = ca, cert, key
		return o
	}
	m := join(t, with(file("ca.pem"), file("host.pem"), file("host.key")))
	m.sees(0)
	if err := m.take(1, tokens[0], 0); err != nil {
		t.Error(err)
	}
	for what, o := range map[string]registry.Options{
		"no certificate": with(file("ca.pem"), "", ""),
		"of another authority": with(file("ca.pem"), filepath.Join(other, "host.pem"), filepath.Join(other,
			"host.key")),
		"another etcd authority": with(filepath.Join(other, "ca.pem"), file("host.pem"), file("host.key")),
		"no TLS":                 with("", "", ""),
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_, err := registry.Join(ctx, o)
		if stop(); !errors.Is(err, registry.ErrAway) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for want, o := range map[string]registry.Options{
		"no such file":              with(file("missing"), "", ""),
		"has no certificate in PEM": with(file("host.key"), "", ""),
		"belong together":           with(file("ca.pem"), file("host.pem"), ""),
		"cert without ca":           with("", file("host.pem"), file("host.key")),
		"etcd: cert":                with(file("ca.pem"), file("host.pem"), file("etcd.key")),
	} {
		if _, err := registry.Join(t.Context(), o); !errors.Is(err, config.ErrConfig) ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Rule: with the users and roles of the manual's page a host can do what it needs, and can neither
// be another host nor choose the epoch. A wrong password is told.
func TestUsers(t *testing.T) {
	s := etcd.Start(t)
	var errs []error
	did := func(_ any, err error) { errs = append(errs, err) }
	c, ctx := s.Client, t.Context()
	did(c.RoleAdd(ctx, "funet"))
	did(c.RoleGrantPermission(ctx, "funet", "/lab/", clientv3.GetPrefixRangeEnd("/lab/"),
		clientv3.PermissionType(clientv3.PermRead)))
	did(c.RoleGrantPermission(ctx, "funet", "/lab/groups/", clientv3.GetPrefixRangeEnd("/lab/groups/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	for _, n := range []string{"0", "1"} {
		did(c.RoleAdd(ctx, "funet-"+n))
		did(c.RoleGrantPermission(ctx, "funet-"+n, "/lab/hosts/"+n, "",
			clientv3.PermissionType(clientv3.PermReadWrite)))
		did(c.UserAdd(ctx, "host-"+n, "secret-"+n))
		did(c.UserGrantRole(ctx, "host-"+n, "funet"))
		did(c.UserGrantRole(ctx, "host-"+n, "funet-"+n))
	}
	did(c.UserAdd(ctx, "root", "root"))
	did(c.UserGrantRole(ctx, "root", "root"))
	did(c.AuthEnable(ctx))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	as := func(node int, line string, mode os.FileMode) registry.Options {
		o := options(s, node)
		o.Etcd.User = filepath.Join(t.TempDir(), "user")
		err := os.WriteFile(o.Etcd.User, []byte(line), mode)
		if err = errors.Join(err, os.Chmod(o.Etcd.User, mode)); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return o
	}
	a, b := join(t, as(0, "host-0:secret-0\n", 0o600)), join(t, as(1, "host-1:secret-1", 0o600))
	a.sees(0, 1)
	if err := errors.Join(a.take(1, tokens[0], 0), b.take(1, tokens[0], 1)); err != nil {
		t.Error(err)
	}
	a.Release(1)
	if err := b.leave(false); err != nil {
		t.Error(err)
	}
	a.sees(0)
	for want, o := range map[string]registry.Options{
		"authentication failed": as(1, "host-1:wrong", 0o600),
		"permission denied":     as(1, "host-0:secret-0", 0o600), // another host's user
		"user name is empty":    options(s, 1),
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_, err := registry.Join(ctx, o)
		if stop(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, o := range map[string]registry.Options{
		"may be read by others": as(1, "host-1:secret-1", 0o644),
		"is not one line":       as(1, "host-1", 0o600),
		"is not one line, name": as(1, "a:b\nc:d", 0o600),
	} {
		if _, err := registry.Join(t.Context(), o); !errors.Is(err, config.ErrConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	liar, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Username: "host-1", Password: "secret-1",
		Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer liar.Close()
	for _, key := range []string{"/lab/hosts/0", "/lab/epoch", "/lab/hosts/2", "/other"} {
		if _, err := liar.Put(t.Context(), key, "x"); err == nil || !strings.Contains(err.Error(),
			"permission denied") {
			t.Errorf("host 1 writes %s: %v", key, err)
		}
	}
}
