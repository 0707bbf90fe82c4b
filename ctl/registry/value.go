package registry

// This file reads and writes the values of single keys.

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/port/encap"
)

const (
	// MaxValue is the longest value in bytes that is looked at.
	MaxValue   = 4096
	mostName   = 64 // bytes in a host's name
	mostRanges = 64 // of nodes that a claim names
	lifeSize   = 16 // hexadecimal digits of a life
	jobSize    = 32 // hexadecimal digits of a job's fingerprint
)

// ErrValue reports a key or a value of the table that is not one of FUNet.
var ErrValue = errors.New("not a value of a cluster's table")

// Host is a host's own entry in the table.
type Host struct {
	Node    uint16
	Name    string
	Life    string // drawn anew by each daemon that starts
	MAC     net.HardwareAddr
	Address netip.Addr
	Iface   string // the interface that the others reach; theirs has the same name
	Encap   cluster.Encap
	Port    uint16
	Groups  []cluster.Range // that may live there; nil: all
}

// Claim is the part of a job that is on one host.
type Claim struct {
	Job    string // Fingerprint
	UID    uint32
	Nodes  int      // how many are on the host
	Ranges []string // the first of them, such as 0-3
}

// Epoch says which of the hosts' keys is in use.
type Epoch struct {
	Number   int    `json:"number"`
	Identity string `json:"identity"` // of the key, as `funet key show` prints it
}

// Fingerprint distinguishes jobs without telling their tokens.
func Fingerprint(gid uint16, token attach.Token) string {
	h := hmac.New(sha256.New, token[:])
	fmt.Fprintf(h, "funet group %d", gid)
	return hex.EncodeToString(h.Sum(nil))[:jobSize]
}

// ClaimOf describes the nodes of a job on one host.
func ClaimOf(gid uint16, token attach.Token, uid uint32, cards []uint16, host uint16) Claim {
	c := Claim{Job: Fingerprint(gid, token), UID: uid}
	for node := 0; node < len(cards); node++ {
		if cards[node] != host {
			continue
		}
		first := node
		for node+1 < len(cards) && cards[node+1] == host {
			node++
		}
		c.Nodes += node - first + 1
		if len(c.Ranges) < mostRanges {
			c.Ranges = append(c.Ranges, nodeRange(first, node))
		}
	}
	return c
}

func nodeRange(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// hostJSON and claimJSON are the forms of values.
type (
	hostJSON struct {
		Host    string   `json:"host"`
		Life    string   `json:"life"`
		MAC     string   `json:"mac,omitempty"`
		Address string   `json:"address,omitempty"`
		Iface   string   `json:"iface"`
		Encap   string   `json:"encap"`
		Port    uint16   `json:"port,omitempty"`
		Groups  []string `json:"groups,omitempty"`
	}
	claimJSON struct {
		Job    string   `json:"job"`
		UID    uint32   `json:"uid"`
		Nodes  int      `json:"nodes"`
		Ranges []string `json:"ranges,omitempty"`
	}
)

// Marshal writes the value of a host.
func (h *Host) Marshal() string {
	j := hostJSON{Host: h.Name, Life: h.Life, Iface: h.Iface, Encap: h.Encap.String(), Port: h.Port}
	if h.MAC != nil {
		j.MAC = h.MAC.String()
	}
	if h.Address.IsValid() {
		j.Address = h.Address.String()
	}
	for _, r := range h.Groups {
		j.Groups = append(j.Groups, r.String())
	}
	return marshal(j)
}

// Marshal writes the value of a claim.
func (c *Claim) Marshal() string { return marshal(claimJSON(*c)) }

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers always can be
	}
	return string(b)
}

// parse reads the JSON of a value, which has no fields that this version does not know.
func parse(key, value string, to any) error {
	if value == "" {
		return fmt.Errorf("%s: empty, or more than %d bytes: %w", key, MaxValue, ErrValue)
	}
	d := json.NewDecoder(strings.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", key, plain(err), ErrValue)
	}
	return nil
}

// matches refuses a text that a pattern does not describe.
func matches(key, field, s string, pattern *regexp.Regexp, want string) error {
	if !pattern.MatchString(s) {
		return fmt.Errorf("%s: %s is %.80q, want %s: %w", key, field, s, want, ErrValue)
	}
	return nil
}

var (
	names        = regexp.MustCompile(fmt.Sprintf(`\A[!-~]{1,%d}\z`, mostName))
	lives        = regexp.MustCompile(fmt.Sprintf(`\A[0-9a-f]{%d}\z`, lifeSize))
	fingerprints = regexp.MustCompile(fmt.Sprintf(`\A[0-9a-f]{%d}\z`, jobSize))
	identities   = regexp.MustCompile(`\A[0-9a-f]{8}\z`)
	ranges       = regexp.MustCompile(`\A[0-9]{1,5}(-[0-9]{1,5})?\z`)
)

// ParseHost reads the value of a host; errors begin with key. Errors wrap ErrValue, or are those of
// a peers file.
func ParseHost(key string, node uint16, value string) (*Host, error) {
	var j hostJSON
	if err := parse(key, value, &j); err != nil {
		return nil, err
	}
	h := &Host{Node: node, Name: j.Host, Life: j.Life, Iface: j.Iface, Port: j.Port}
	if err := matches(key, "host", h.Name, names, fmt.Sprintf("up to %d letters, digits or marks",
		mostName)); err != nil {
		return nil, err
	}
	if err := matches(key, "life", h.Life, lives, fmt.Sprintf("%d hexadecimal digits", lifeSize)); err != nil {
		return nil, err
	}
	var err error
	if h.Encap, err = cluster.ParseEncap(j.Encap); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if j.MAC != "" {
		if h.MAC, err = net.ParseMAC(j.MAC); err != nil {
			return nil, fmt.Errorf("%s: mac is %.40q: %w", key, j.MAC, cluster.ErrMAC)
		}
	}
	if j.Address != "" {
		if h.Address, err = netip.ParseAddr(j.Address); err != nil {
			return nil, fmt.Errorf("%s: address is %.40q: %w", key, j.Address, cluster.ErrAddress)
		}
	}
	if j.Groups != nil && len(j.Groups) == 0 {
		return nil, fmt.Errorf("%s: groups is empty: %w", key, cluster.ErrGIDRange)
	}
	for _, s := range j.Groups {
		r, err := cluster.ParseRange(s)
		if err != nil {
			return nil, fmt.Errorf("%s: groups has %w", key, err)
		}
		h.Groups = append(h.Groups, r)
	}
	p := h.peer()
	err = p.Validate(h.Encap)
	switch {
	case h.Iface == "":
		err = fmt.Errorf("has no iface: %w", cluster.ErrIface)
	case int(h.Port) > encap.MaxPort || h.Port != 0 && h.Encap != cluster.UDP:
		err = fmt.Errorf("has port %d, want up to %d, and encap udp: %w", h.Port, encap.MaxPort, cluster.ErrPort)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: host %d %w", key, node, err)
	}
	return h, nil
}

// peer returns the host as an entry of a peers file.
func (h *Host) peer() cluster.Peer {
	return cluster.Peer{Node: h.Node, MAC: h.MAC, Address: h.Address, Iface: h.Iface, Groups: h.Groups}
}

// place returns the address that the host's encapsulation uses.
func (h *Host) place() string {
	if h.Encap == cluster.UDP {
		return h.Address.String()
	}
	return h.MAC.String()
}

// ParseClaim reads the value of a claim; errors begin with key, and wrap ErrValue.
func ParseClaim(key, value string) (*Claim, error) {
	var j claimJSON
	if err := parse(key, value, &j); err != nil {
		return nil, err
	}
	if err := matches(key, "job", j.Job, fingerprints, fmt.Sprintf("%d hexadecimal digits", jobSize)); err != nil {
		return nil, err
	}
	if j.Nodes < 0 || j.Nodes > cluster.MaxNodes || len(j.Ranges) > mostRanges {
		return nil, fmt.Errorf("%s: %d nodes in %d ranges, want up to %d in %d: %w", key, j.Nodes, len(j.Ranges),
			cluster.MaxNodes, mostRanges, ErrValue)
	}
	for _, s := range j.Ranges {
		if err := matches(key, "ranges", s, ranges, "nodes such as 0-3"); err != nil {
			return nil, err
		}
	}
	c := Claim(j)
	return &c, nil
}

// ParseEpoch reads the value of the key epoch; errors begin with key, and wrap ErrValue.
func ParseEpoch(key, value string) (*Epoch, error) {
	var e Epoch
	if err := parse(key, value, &e); err != nil {
		return nil, err
	}
	if e.Number < 1 || e.Number > math.MaxInt32 {
		return nil, fmt.Errorf("%s: number is %d, want 1 to %d: %w", key, e.Number, math.MaxInt32, ErrValue)
	}
	if err := matches(key, "identity", e.Identity, identities,
		"8 hexadecimal digits, as `funet key show` prints"); err != nil {
		return nil, err
	}
	return &e, nil
}

// kind says what a key is about.
type kind int

const (
	stranger kind = iota
	hostKey
	claimKey
	epochKey
	noteKey
)

// noteName is the key of the note that etcd was restored. Hosts may write it, as they may groups.
const noteName = "groups/restored"

// readKey takes a key apart, without the prefix. Only the form that this package writes is a key.
func readKey(key string) (k kind, gid, host uint16) {
	part := strings.Split(key, "/")
	number := func(s string, low, high uint64) (uint16, bool) {
		n, err := strconv.ParseUint(s, 10, 16)
		return uint16(n), err == nil && n >= low && n <= high && strconv.FormatUint(n, 10) == s
	}
	switch {
	case key == "epoch":
		return epochKey, 0, 0
	case key == noteName:
		return noteKey, 0, 0
	case len(part) == 2 && part[0] == "hosts":
		if host, ok := number(part[1], 0, cluster.MaxNodes-1); ok {
			return hostKey, 0, host
		}
	case len(part) == 3 && part[0] == "groups":
		gid, ok := number(part[1], 1, arctic.MaxGID)
		host, also := number(part[2], 0, cluster.MaxNodes-1)
		if ok && also {
			return claimKey, gid, host
		}
	}
	return stranger, 0, 0
}

func hostName(node uint16) string { return fmt.Sprintf("hosts/%d", node) }

func groupName(gid uint16) string { return fmt.Sprintf("groups/%d/", gid) }

func claimName(gid, host uint16) string { return fmt.Sprintf("groups/%d/%d", gid, host) }
