package attach

// This file reads a program's place in a job from its environment. The launcher made the
// environment; Slurm or mpirun has added variables for each process that it starts.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The variables of the environment of a process of a job.
const (
	// SocketVariable is the path of the daemon's socket, or a list of paths with colons between
	// them: that of node n is at index n modulo their number. No path has a colon.
	SocketVariable = "FUNET_SOCKET"
	GIDVariable    = "FUNET_GID"   // the job's group
	NodeVariable   = "FUNET_NODE"  // the process's number in it
	NodesVariable  = "FUNET_NODES" // how many members the group has
	TokenVariable  = "FUNET_TOKEN" // the job's token (Token.Text)
	// LifeVariable is how many processes were this node before, and RestartsVariable how many may
	// follow the first. They are set only where the launcher restarts a node that has failed (funet
	// run --restart).
	LifeVariable     = "FUNET_LIFE"
	RestartsVariable = "FUNET_RESTARTS"
)

// DefaultSocket is the path where a daemon listens by default.
const DefaultSocket = "/run/funet/funid.sock"

// ErrEnvironment reports an environment that does not say which member of which job the process is.
var ErrEnvironment = errors.New("attach: start the program with funet run, which sets FUNET_GID, FUNET_NODE and FUNET_TOKEN")

// places are the variables with a process's number and the number of processes. A launcher that can
// start processes within another launcher's job comes before that one. The order is funet run,
// mpirun of Open MPI (OMPI_...), MPICH and others that speak PMI (PMI_...), PMIx (PMIX_...), and
// srun of Slurm. PMIx does not say how many processes there are. Slurm's come last, because
// mpirun's processes within its job also have them, with equal values. funi.h has the same list
// (funi_places); a test compares them.
var places = [][2]string{
	{NodeVariable, NodesVariable},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"PMIX_RANK", ""},
	{"SLURM_PROCID", "SLURM_NTASKS"},
}

// OtherPlaces returns the variables that say a process's number within mpirun or srun. A launcher
// that has them itself removes them from the environment of its processes, which would take them
// for their own. SLURM_NTASKS and the like stay: srun takes them as options.
func OtherPlaces() []string {
	var names []string
	for _, p := range places[1:] {
		names = append(names, p[0])
	}
	return names
}

// Environment returns the configuration that the variables describe. Where FUNET_NODE is missing,
// number and number of processes are those of mpirun or srun. It returns ErrEnvironment if a
// variable is missing or invalid. FUNET_SOCKET, FUNET_NODES, FUNET_LIFE and FUNET_RESTARTS may be
// missing.
func Environment() (Config, error) { return EnvironmentOf(os.Getenv) }

// EnvironmentOf is Environment with another function for the values of variables. A library in a
// program of C needs it: os.Getenv does not see what that program has set.
func EnvironmentOf(getenv func(name string) string) (Config, error) {
	var c Config
	place := places[0]
	for _, p := range places {
		if getenv(p[0]) != "" {
			place = p
			break
		}
	}
	var gid, node, nodes, life, restarts uint64
	for _, v := range []struct {
		name string
		bits int
		to   *uint64
	}{{GIDVariable, 16, &gid}, {place[0], 16, &node}, {place[1], 17, &nodes}, {LifeVariable, 16, &life},
		{RestartsVariable, 16, &restarts}} {
		s := getenv(v.name)
		if s == "" && v.to != &gid && v.to != &node {
			continue
		}
		var err error
		if *v.to, err = strconv.ParseUint(s, 10, v.bits); err != nil {
			return Config{}, fmt.Errorf("reading %s=%q, a number up to %d: %w", v.name, s, 1<<v.bits-1, ErrEnvironment)
		}
	}
	c.GID, c.Node, c.Nodes, c.Life, c.Restarts = uint16(gid), uint16(node), int(nodes), int(life), int(restarts)
	sockets := strings.Split(getenv(SocketVariable), ":")
	c.Socket = sockets[int(c.Node)%len(sockets)]
	var err error
	if c.Token, err = ParseToken(getenv(TokenVariable)); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w: %w", TokenVariable, ErrEnvironment, err)
	}
	return c, nil
}
