package doctor

// This file looks at the key files of this host: those that funid reports, and those that funid's
// configuration and the peers file name.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/keyfile"
)

// DefaultConfig is the path of funid's configuration, unless the user names another.
const DefaultConfig = "/etc/funet/funid.yaml"

// mostKeys is the most key files that are looked at: a peers file may name one for each host.
const mostKeys = 16

// handedBelow is the folder of the files that systemd hands to services.
const handedBelow = "/run/credentials/"

// units are the paths where funid's unit may be installed.
var units = []string{"/etc/systemd/system/funid.service", "/usr/local/lib/systemd/system/funid.service",
	"/usr/lib/systemd/system/funid.service", "/lib/systemd/system/funid.service"}

// askStatus asks a daemon that answers for its keys and the state of its direct ports.
func (d *Daemon) askStatus(ctx context.Context) {
	var s report.Status
	if d.State == Answers && attach.Call(ctx, d.Socket, attach.KindStatus, daemonPatience, nil, &s) == nil {
		d.Keys, d.Direct = s.Keys, s.Direct
	}
}

// gatherKeys looks at each file once. A default configuration that cannot be read is no fault.
func gatherKeys(o *Options, d *Daemon) (keys []Key) {
	at := map[string]int{}
	add := func(file string) *Key {
		if i, ok := at[file]; ok {
			return &keys[i]
		}
		if file == "" || len(keys) == mostKeys {
			return nil
		}
		at[file] = len(keys)
		k := Key{File: file, Handed: strings.HasPrefix(file, keyfile.Credentials) ||
			strings.HasPrefix(file, handedBelow)}
		if !strings.HasPrefix(file, keyfile.Credentials) {
			k.Holds, k.Err = lookAtKey(file)
		}
		keys = append(keys, k)
		return &keys[len(keys)-1]
	}
	for _, has := range d.Keys {
		if k := add(has.File); k != nil {
			k.Has = has.Identity
		}
	}
	named := func(f *cluster.File) {
		if f == nil {
			return
		}
		add(f.Key)
		for i := range f.Peers {
			add(f.Peers[i].Key)
		}
	}
	if o.Peers != "" {
		f, _ := cluster.Load(o.Peers) // what is wrong with it is said of the peer
		named(f)
	}
	path := cmp.Or(o.Config, DefaultConfig)
	c, err := config.Load(path)
	if err != nil {
		if o.Config != "" {
			keys = append(keys, Key{File: path, Err: err})
		}
		return keys
	}
	before := len(keys)
	if strings.Contains(c.Key, config.KeyEpoch) { // those of all epochs that are here
		epochs, _ := filepath.Glob(strings.ReplaceAll(c.Key, config.KeyEpoch, "[0-9]*"))
		for _, file := range epochs {
			add(file)
		}
	} else {
		add(c.Key)
	}
	named(c.Peers)
	for i := before; i < len(keys); i++ {
		keys[i].Service = d.State != Answers && installed()
	}
	return keys
}

// installed reports whether funid's unit is installed.
func installed() bool {
	return slices.ContainsFunc(units, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// lookAtKey reads a key file, or finds out what this user can see of it.
func lookAtKey(file string) (holds string, wrong error) {
	k, err := keyfile.Load(file)
	if err == nil {
		return fmt.Sprintf("%08x", k.Identity()), nil
	}
	// A user who may not read it may still see whether another may.
	if os.Geteuid() != 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, keyfile.ErrOwner)) {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err == nil {
			_, err := keyfile.Look(file, int(st.Uid))
			return "", err
		}
	}
	return "", err
}
