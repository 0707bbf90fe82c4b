package attach

// This file is where a program gets its place in a job from: the environment that the
// launcher gives it.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// The variables of the environment of a process of a job.
const (
	SocketVariable = "FUNET_SOCKET" // path of the daemon's socket
	GIDVariable    = "FUNET_GID"    // the job's group
	NodeVariable   = "FUNET_NODE"   // the process's number in it
	NodesVariable  = "FUNET_NODES"  // how many members the group has
	TokenVariable  = "FUNET_TOKEN"  // the job's token (Token.Text)
)

// DefaultSocket is where a daemon listens if nothing else was said.
const DefaultSocket = "/run/funet/funid.sock"

// ErrEnvironment: the environment does not say which member of which job this is.
var ErrEnvironment = errors.New("attach: start the program with funet run, which sets FUNET_GID, FUNET_NODE and FUNET_TOKEN")

// Environment returns what the variables say. ErrEnvironment is returned where one is
// missing or not what it should be; FUNET_SOCKET may be missing.
func Environment() (Config, error) {
	c := Config{Socket: os.Getenv(SocketVariable)}
	for _, v := range []struct {
		name string
		to   *uint16
	}{{GIDVariable, &c.GID}, {NodeVariable, &c.Node}} {
		n, err := strconv.ParseUint(os.Getenv(v.name), 10, 16)
		if err != nil {
			return Config{}, fmt.Errorf("reading %s=%q: %w", v.name, os.Getenv(v.name), ErrEnvironment)
		}
		*v.to = uint16(n)
	}
	var err error
	if c.Token, err = ParseToken(os.Getenv(TokenVariable)); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w: %w", TokenVariable, ErrEnvironment, err)
	}
	return c, nil
}
