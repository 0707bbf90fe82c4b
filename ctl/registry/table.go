package registry

// This file is what was read of a table, and the peers file that comes of it.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/funet/funet/uspace/cluster"
)

// mostClaims is how many GIDs one host may have; keys beyond do not count.
const mostClaims = 1024

// entry is a key with its value, as etcd has them.
type entry struct {
	value    string // "": longer than MaxValue
	made     int64  // revision in which the key was made
	modified int64
	lease    int64
}

// table is the part of etcd's content that lies below the prefix.
type table struct {
	hosts     map[uint16]entry
	groups    map[uint16]map[uint16]entry // by GID and host
	claimed   map[uint16]int              // how many GIDs a host has
	epoch     entry
	hasEpoch  bool
	note      entry           // says that etcd was restored; it counts if it has a lease
	strangers map[string]bool // keys of no known form; at most mostStrangers
	revision  int64           // of the last change that is in it
}

const mostStrangers = 64

func newTable() *table {
	return &table{hosts: map[uint16]entry{}, groups: map[uint16]map[uint16]entry{}, claimed: map[uint16]int{},
		strangers: map[string]bool{}}
}

// set enters a key without its prefix, or removes it if e is nil.
func (t *table) set(key string, e *entry) {
	k, gid, host := readKey(key)
	switch k {
	case hostKey:
		if delete(t.hosts, host); e != nil {
			t.hosts[host] = *e
		}
	case claimKey:
		if h, there := t.hosts[host]; e != nil && (!there || e.lease != h.lease) {
			e = nil // not the host's: nothing of it is kept
		}
		of := t.groups[gid]
		if _, had := of[host]; had {
			if delete(of, host); len(of) == 0 {
				delete(t.groups, gid)
				of = nil
			}
			if t.claimed[host]--; t.claimed[host] == 0 {
				delete(t.claimed, host)
			}
		}
		if e != nil {
			if of == nil {
				of = map[uint16]entry{}
				t.groups[gid] = of
			}
			of[host] = *e
			t.claimed[host]++
		}
	case epochKey:
		if t.hasEpoch = e != nil; t.hasEpoch {
			t.epoch = *e
		}
	case noteKey:
		if t.note = (entry{}); e != nil {
			t.note = *e
		}
	case stranger:
		if e == nil {
			delete(t.strangers, key)
		} else if len(t.strangers) < mostStrangers {
			t.strangers[key] = true
		}
	}
}

// follows reports whether a table that was read later continues this one's history. One does not if
// its revision is lower, or it has another change in a revision that is in this one: etcd was
// restored from a copy.
func (t *table) follows(old *table) bool {
	another := func(is, was entry) bool {
		return is.modified <= old.revision && (is.modified != was.modified || is.lease != was.lease)
	}
	for node, is := range t.hosts {
		if another(is, old.hosts[node]) {
			return false
		}
	}
	for gid, of := range t.groups {
		for host, is := range of {
			// A claim that is missing there may have been one that did not count.
			if was, there := old.groups[gid][host]; there && another(is, was) {
				return false
			}
		}
	}
	return t.revision >= old.revision
}

// counts reports whether a claim counts: it has its host's lease, and is not beyond the share.
func (t *table) counts(gid, host uint16) bool {
	e, ok := t.groups[gid][host]
	h, there := t.hosts[host]
	return ok && there && e.lease != 0 && e.lease == h.lease && t.withinShare(host, e.made)
}

// withinShare reports whether a host's claim made in a revision is among its first mostClaims.
func (t *table) withinShare(host uint16, made int64) bool {
	if t.claimed[host] < mostClaims {
		return true
	}
	earlier := 0
	for _, of := range t.groups {
		if e, ok := of[host]; ok && e.made < made {
			earlier++
		}
	}
	return earlier < mostClaims
}

// takenBy returns the host of a claim of another job than the fingerprint's.
func (t *table) takenBy(gid uint16, job string, own uint16) (host uint16, taken bool) {
	for host, e := range t.groups[gid] {
		if host == own || !t.counts(gid, host) {
			continue
		}
		if c, err := ParseClaim(claimName(gid, host), e.value); err != nil || c.Job != job {
			return host, true
		}
	}
	return 0, false
}

// Peers is a table as a daemon follows it.
type Peers struct {
	File  *cluster.File
	Names map[uint16]string // of hosts
	Epoch *Epoch            // nil: the table has none
	// Refused are keys that do not count, with the reason, in the order of keys.
	Refused []string
	Groups  int // GIDs that are taken
}

// mostRefused is how many refused keys are told.
const mostRefused = 16

// hostCache keeps hosts that were parsed, since most do not change.
type hostCache map[uint16]parsed

type parsed struct {
	of   entry
	host *Host
	err  error
}

func (c hostCache) parse(node uint16, e entry) (*Host, error) {
	if p, ok := c[node]; ok && p.of == e {
		return p.host, p.err
	}
	h, err := ParseHost(hostName(node), node, e.value)
	c[node] = parsed{e, h, err}
	return h, err
}

// peers makes the peers file. Of two hosts that contradict each other the one counts that was there
// first; own always counts. interfaces are those of this host.
func (t *table) peers(own *Host, interfaces []string, cache hostCache) *Peers {
	p := &Peers{Names: map[uint16]string{own.Node: own.Name}, Groups: len(t.groups)}
	refused := map[string]string{}
	for key := range t.strangers {
		refused[key] = fmt.Sprintf("%.80q: %v", key, ErrValue)
	}
	last := max(cluster.MinNodes-1, int(own.Node))
	places := map[string]uint16{own.place(): own.Node}
	addresses := map[string]uint16{own.Address.String(): own.Node}
	var hosts []*Host
	order := slices.SortedFunc(maps.Keys(t.hosts), func(a, b uint16) int {
		return cmp.Or(cmp.Compare(t.hosts[a].made, t.hosts[b].made), cmp.Compare(a, b))
	})
	for node := range cache {
		if _, there := t.hosts[node]; !there {
			delete(cache, node)
		}
	}
	for _, node := range order {
		if node == own.Node {
			continue
		}
		h, err := cache.parse(node, t.hosts[node])
		if err == nil {
			err = t.fits(h, own, interfaces, places, addresses)
		}
		if err != nil {
			refused[hostName(node)] = err.Error()
			continue
		}
		places[h.place()] = node
		if h.Address.IsValid() {
			addresses[h.Address.String()] = node
		}
		p.Names[node] = h.Name
		hosts = append(hosts, h)
		last = max(last, int(node))
	}
	p.File = &cluster.File{Encap: own.Encap, Port: own.Port, Peers: make([]cluster.Peer, last+1)}
	for i := range p.File.Peers {
		p.File.Peers[i] = cluster.Peer{Node: uint16(i), Absent: true}
	}
	p.File.Peers[own.Node] = own.peer()
	for _, h := range hosts {
		p.File.Peers[h.Node] = h.peer()
	}
	if len(interfaces) == 1 { // it leads everywhere
		for i := range p.File.Peers {
			p.File.Peers[i].Iface = ""
		}
	}
	if t.hasEpoch {
		var err error
		if p.Epoch, err = ParseEpoch("epoch", t.epoch.value); err != nil {
			refused["epoch"] = err.Error()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(refused)) {
		if len(p.Refused) == mostRefused {
			p.Refused = append(p.Refused, fmt.Sprintf("and %d more keys", len(refused)-mostRefused))
			break
		}
		p.Refused = append(p.Refused, refused[key])
	}
	return p
}

// fits refuses a host that cannot be a peer of this one, or contradicts an earlier host.
func (t *table) fits(h, own *Host, interfaces []string, places, addresses map[string]uint16) error {
	key := hostName(h.Node)
	switch {
	case h.Encap != own.Encap || h.Port != own.Port:
		return fmt.Errorf("%s: encap %v and port %d, and this host has %v and %d; give all hosts the same: %w", key,
			h.Encap, h.Port, own.Encap, own.Port, cluster.ErrEncap)
	case h.Encap == cluster.UDP && h.Address.Is4() != own.Address.Is4():
		return fmt.Errorf("%s: address %v, and this host has %v: %w", key, h.Address, own.Address, cluster.ErrFamily)
	case len(interfaces) > 1 && !slices.Contains(interfaces, h.Iface):
		return fmt.Errorf("%s: is behind interface %s, and this host has %s: %w", key, h.Iface,
			strings.Join(interfaces, ", "), cluster.ErrIface)
	}
	if other, taken := places[h.place()]; taken {
		return fmt.Errorf("%s: has %s, which is host %d's: %w", key, h.place(), other, cluster.ErrDuplicateMAC)
	}
	if other, taken := addresses[h.Address.String()]; taken && h.Address.IsValid() {
		return fmt.Errorf("%s: has %v, which is host %d's: %w", key, h.Address, other, cluster.ErrDuplicateIP)
	}
	return nil
}
