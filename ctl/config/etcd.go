package config

// This file is where a cluster keeps its table, if that is etcd and not a file.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/funet/funet/hwprofiles/strictyaml"
)

// EtcdScheme begins the name of a table in etcd, where a peers file's name may stand.
const EtcdScheme = "etcd://"

// KeyEpoch stands for the number of the key epoch in the name of a key file.
const KeyEpoch = "{epoch}"

const (
	mostEndpoints = 16
	mostPrefix    = 128 // bytes
	// DefaultLease is how long a host stays in the table that etcd no longer hears.
	DefaultLease             = 10 * time.Second
	leastLease, mostLease    = 2 * time.Second, 5 * time.Minute
	defaultPrefix, etcdShape = "/funet/", "etcd://HOST:PORT[,HOST:PORT...]/NAME"
)

// Etcd says where the table of a cluster is (package registry). Files that are named beside a
// configuration file are paths.
type Etcd struct {
	Endpoints []string      // host:port
	Prefix    string        // of all keys; it begins and ends with a slash
	CA        string        // file of the certificates that etcd's is signed by; "": no TLS
	Cert, Key string        // files of this host's certificate and its key; "": none
	User      string        // file of one line, name:password; "": none
	Lease     time.Duration // DefaultLease
}

// ParseEtcd reads where a table is: etcd://a:2379,b:2379/lab. Errors wrap ErrConfig.
func ParseEtcd(s string) (*Etcd, error) {
	bad := func(format string, args ...any) (*Etcd, error) {
		return nil, fmt.Errorf("peers %q: %s; want %s: %w", clip(s), fmt.Sprintf(format, args...), etcdShape, ErrConfig)
	}
	rest, ok := strings.CutPrefix(s, EtcdScheme)
	if !ok {
		return bad("does not begin with %s", EtcdScheme)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	e := &Etcd{Endpoints: strings.Split(hosts, ","), Prefix: defaultPrefix, Lease: DefaultLease}
	if len(e.Endpoints) > mostEndpoints {
		return bad("%d hosts, more than %d", len(e.Endpoints), mostEndpoints)
	}
	for i, at := range e.Endpoints {
		host, port, err := net.SplitHostPort(at)
		if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || host == "" ||
			strings.ContainsFunc(host, func(c rune) bool {
				return c <= ' ' || c > '~' || strings.ContainsRune("@?#",
					c)
			}) {
			return bad("%q is no host with a port", clip(at))
		}
		if slices.Contains(e.Endpoints[:i], at) {
			return bad("%q is given twice", clip(at))
		}
	}
	if path = strings.Trim(path, "/"); path != "" {
		e.Prefix = "/" + path + "/"
	}
	if len(e.Prefix) > mostPrefix || strings.Contains(e.Prefix, "//") || strings.ContainsFunc(e.Prefix,
		func(c rune) bool {
			return c <= ' ' || c > '~' || strings.ContainsRune("?#%", c)
		}) {
		return bad("the name is not up to %d letters, digits, marks and slashes", mostPrefix-2)
	}
	return e, nil
}

// clip shortens a text for an error.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// String returns the table's name, as a configuration has it.
func (e *Etcd) String() string {
	return EtcdScheme + strings.Join(e.Endpoints, ",") + strings.TrimSuffix(e.Prefix, "/")
}

// access reads the key etcd, which says how to reach the table.
func (e *Etcd) access(n *strictyaml.Node) error {
	return n.Fields(
		strictyaml.Text("ca", &e.CA),
		strictyaml.Text("cert", &e.Cert),
		strictyaml.Text("key", &e.Key),
		strictyaml.Text("user", &e.User),
		strictyaml.Value("lease", func(n *strictyaml.Node) error {
			s, err := n.Text()
			if err != nil {
				return err
			}
			if e.Lease, err = time.ParseDuration(s); err != nil || e.Lease < leastLease || e.Lease > mostLease ||
				e.Lease%time.Second != 0 {
				return n.Errorf("lease is %q, want whole seconds from %v to %v, such as %v", s, leastLease, mostLease,
					DefaultLease)
			}
			return nil
		}))
}

// beside makes paths of the names of files; folder is that of the configuration.
func (e *Etcd) beside(folder string) {
	for _, file := range []*string{&e.CA, &e.Cert, &e.Key, &e.User} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(folder, *file)
		}
	}
}

// At takes a table for the peers, in place of a peers file. How to reach it stays as it is. Errors
// wrap ErrConfig.
func (f *File) At(table string) error {
	at, err := ParseEtcd(table)
	if err != nil {
		return err
	}
	if f.Etcd != nil {
		at.CA, at.Cert, at.Key, at.User, at.Lease = f.Etcd.CA, f.Etcd.Cert, f.Etcd.Key, f.Etcd.User, f.Etcd.Lease
	}
	f.Etcd, f.Peers, f.PeersPath = at, nil, ""
	return at.Check()
}

// Check refuses contradictions. Errors wrap ErrConfig.
func (e *Etcd) Check() error {
	switch {
	case (e.Cert == "") != (e.Key == ""):
		return fmt.Errorf("etcd: cert and key belong together; give both, or neither: %w", ErrConfig)
	case e.Cert != "" && e.CA == "":
		return fmt.Errorf("etcd: cert without ca; name the file of the certificates that etcd's is signed by: %w",
			ErrConfig)
	case e.User != "" && e.CA == "" && slices.ContainsFunc(e.Endpoints, func(at string) bool { return !loopback(at) }):
		return fmt.Errorf("etcd: user without ca: the password would cross the network in the clear; add ca: %w",
			ErrConfig)
	}
	return nil
}

func loopback(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	a, wrong := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || wrong == nil && a.IsLoopback())
}

// errNoTable reports how to reach a table that no key names.
var errNoTable = errors.New("etcd: says how to reach a table that peers does not name; add peers: " + etcdShape)
