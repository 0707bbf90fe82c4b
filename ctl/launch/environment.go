package launch

// This file makes the environment of a process. A program that runs as the launcher's user inherits
// it. A program of another user gets a composed one, because root's may have secrets.

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// ErrVariable reports an entry of Options.Env that is not a variable.
var ErrVariable = errors.New("not a variable")

// passed lists the variables, besides FUNet's, that another user's process gets from the
// environment of this one. It has PATH, so that it finds the launcher's programs.
var passed = []string{"PATH", "TERM", "TZ", "LANG", "LANGUAGE", "TMPDIR"}
var passedBeginnings = []string{"LC_", "FUNET_"}

// shell is the SHELL of another user's process. Every user can run it, whereas the login shell of
// users such as nobody starts no program.
const shell = "/bin/sh"

// ParseEnv makes NAME=VALUE of each entry: NAME=VALUE stays as it is, and NAME alone takes the
// value that it has in this process. Errors: ErrVariable.
func ParseEnv(list []string) (env []string, err error) {
	for _, s := range list {
		name, _, given := strings.Cut(s, "=")
		value, known := os.LookupEnv(name)
		switch {
		case name == "" || strings.ContainsAny(name, " \t\r\n\v\f") || strings.ContainsRune(s, 0):
			return nil, fmt.Errorf("--env %q: %w; use NAME=VALUE, or NAME for the value that it has here",
				s, ErrVariable)
		case given:
			env = append(env, s)
		case known:
			env = append(env, name+"="+value)
		default:
			return nil, fmt.Errorf("--env %s: %w that has a value here; give it one: --env %s=VALUE", name,
				ErrVariable, name)
		}
	}
	return env, nil
}

// environment is the environment of another user's agent.
func (u *User) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return !passes(s) })
	return append(env, "USER="+u.Name, "LOGNAME="+u.Name, "HOME="+u.home, "SHELL="+shell)
}

// environment returns the environment of a process. It has the agent's variables, then Env, then
// the variables that name the node; a later one replaces an earlier one of the same name. With OFI
// it has those for the provider in a folder, too. Under another user than the launcher's, TMPDIR is
// kept only if that user may write there.
func (n *node) environment(socket string, other bool, provider string) []string {
	env := map[string]string{}
	set := func(s string) {
		if name, value, ok := strings.Cut(s, "="); ok {
			env[name] = value
		}
	}
	for _, s := range os.Environ() {
		set(s)
	}
	if other && unix.Access(env["TMPDIR"], unix.W_OK|unix.X_OK) != nil {
		delete(env, "TMPDIR")
	}
	for _, name := range attach.OtherPlaces() {
		delete(env, name) // the place of the launcher in a job around this one
	}
	for _, s := range n.Env {
		set(string(s))
	}
	env[attach.SocketVariable] = socket
	env[attach.GIDVariable] = strconv.Itoa(int(n.GID))
	env[attach.NodeVariable] = strconv.Itoa(n.Number)
	env[attach.NodesVariable] = strconv.Itoa(n.Nodes)
	env[attach.TokenVariable] = n.Token
	if n.Restarts > 0 {
		env[attach.LifeVariable] = strconv.Itoa(n.Life)
		env[attach.RestartsVariable] = strconv.Itoa(n.Restarts)
	} else { // those of a job around this one
		delete(env, attach.LifeVariable)
		delete(env, attach.RestartsVariable)
	}
	if n.Once {
		delete(env, attach.NodeVariable)
		delete(env, attach.NodesVariable)
	}
	if n.OFI {
		n.withProvider(env, provider)
	}
	all := make([]string, 0, len(env))
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// passes reports whether another user's process gets the variable s.
func passes(s string) bool {
	name, _, _ := strings.Cut(s, "=")
	return slices.Contains(passed, name) ||
		slices.ContainsFunc(passedBeginnings, func(p string) bool { return strings.HasPrefix(name, p) })
}
