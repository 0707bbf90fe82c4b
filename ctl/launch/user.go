package launch

// This file looks up the user that a program runs as when root starts it.

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// ErrUser reports that there is no such user, or that the caller may not become it.
var ErrUser = errors.New("cannot run as that user")

// User is the user that processes run as.
type User struct {
	Name   string // or the number, for a user that the machine does not know
	uid    int
	gid    int
	groups []uint32
	home   string
}

// LookupUser finds a user by name or number. A user with a number that the machine does not know
// has the group of the same number and no other. Errors: ErrUser.
func LookupUser(name string) (*User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if id, e := strconv.ParseUint(name, 10, 31); e == nil {
			if u, err = user.LookupId(name); err != nil {
				return &User{Name: name, uid: int(id), gid: int(id), home: "/"}, nil
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--user %s: %w: no such user; give a name or a number", name, ErrUser)
	}
	r := &User{Name: u.Username, home: u.HomeDir}
	ids, err := u.GroupIds()
	if err == nil {
		r.uid, err = strconv.Atoi(u.Uid)
	}
	if err == nil {
		r.gid, err = strconv.Atoi(u.Gid)
	}
	for _, s := range ids {
		if id, e := strconv.ParseUint(s, 10, 32); e == nil {
			r.groups = append(r.groups, uint32(id))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--user %s: %w: %w", name, ErrUser, err)
	}
	return r, nil
}

// Ordinary returns the user that root runs a program as by default: who called sudo(8), or nobody.
func Ordinary() (*User, error) {
	if id := os.Getenv("SUDO_UID"); id != "" && id != "0" {
		return LookupUser(id)
	}
	if u, err := LookupUser("nobody"); err == nil {
		return u, nil
	}
	return LookupUser("65534") // a machine without /etc/passwd
}
