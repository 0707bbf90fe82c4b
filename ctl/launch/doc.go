// Package launch runs a parallel program: it makes a group on the daemons of the hosts, starts a
// process for each node, and stays until all have ended.
//
// These are the steps of `funet run -n 4 --hosts a,b -- prog`. Run starts an agent for each host
// (agent.go): by ssh (remote.go), by another program that Options.Reach names, such as kubectl, or
// beside itself for a daemon of this machine (here.go). The agent's words begin after a mark
// (beginning.go). The agent talks to the daemon (local.go). Run asks each host which card it has,
// and makes the job (job.go). The first daemon picks a GID, and the others are asked for the same
// GID; all get the same token. Then Run starts the processes (process.go), node n on host n modulo
// the number of hosts, with
//
//	FUNET_SOCKET  the daemon's socket      FUNET_NODE   the node's number
//	FUNET_GID     the group                FUNET_NODES  the number of nodes
//	FUNET_TOKEN   the job's token in hexadecimal
//
// in the environment. A program that is started once on a lab has all sockets in FUNET_SOCKET, with
// colons between them. With Options.OFI there are variables for programs over libfabric, too
// (ofi.go). Package attach takes its configuration from these variables. The token is
// never on a command line, where other users could read it.
//
// # Rules
//
//   - The death of the launcher's machine ends the processes that it started on other hosts: their
//     agents hear nothing from it for Options.HostTimeout (pulse.go).
//   - The output of a node comes out in whole lines, with the node's number before them
//     (output.go). Standard input goes to node 0.
//   - SIGINT, SIGTERM and SIGHUP go to all nodes, each to the whole process group. Processes that
//     are still there some seconds later are killed; a second SIGINT kills at once. The exit code
//     is then 128 plus the signal's number.
//   - The first node that fails gives the exit code, or 128 plus the signal's number if a signal
//     killed it. The others are ended: SIGTERM, some seconds, SIGKILL, each to the whole process
//     group. When a node has ended, the rest of its process group is ended in the same way.
//   - A node that fails is started again on its host, up to Options.Restarts times (lives.go). Its
//     environment then has FUNET_LIFE, the number of earlier processes of the node, and
//     FUNET_RESTARTS. Only a failure after the last restart counts as the node's. Standard input
//     stays with the first process of node 0.
//   - A job of direct ports outlives its daemons: the agent asks the next daemon for it again
//     (keep.go).
//   - The death of a host ends the job. Over any transport, its agent says twice a second that it
//     lives, and is given up when it is not heard for Options.HostTimeout (pulse.go). One line
//     names the host and its nodes, the other nodes are ended, and the exit code is HostLost. That
//     holds even if other nodes failed before because of it.
//   - The end of this process, even by SIGKILL, ends the connections to the agents. Each agent then
//     ends all that it started, with all descendants (orphans.go). The group is freed: it lives as
//     long as the connection of the agent that made it (package attach). A SIGKILL of the agent
//     ends the processes (PR_SET_PDEATHSIG, prctl(2)), but not their own children.
//   - The agent runs as the user that the processes run as. It finds programs, opens files and
//     connects to the daemon as that user. Only a program that this user cannot reach is opened by
//     the launcher (program.go).
//   - Programs, arguments and variables reach a process byte for byte.
//   - A program that root starts as another user gets nothing of root's. It has no privilege and no
//     way to one (no_new_privs), and no terminal (process.go). Its environment is composed and not
//     inherited (environment.go). It has pipes for standard input and output, and no other
//     descriptor. A program that runs as the user who started it has all that this user has.
package launch
