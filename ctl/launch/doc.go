// Package launch runs a parallel program: it makes a group on the daemons of the hosts,
// starts a process for each node, and stays until all have ended.
//
// The journey of `funet run -n 4 --hosts a,b -- prog`: Run reaches the hosts (host.go), each
// either the daemon of this machine (local.go) or an agent at the other end of ssh (remote.go,
// agent.go; Options.Reach names another program than ssh, such as kubectl), asks each which card it has, and makes the job (job.go): the first daemon picks a
// GID, the others are asked for the same one, all get the same token. Then it starts the
// processes (process.go), node n on host n modulo their number, with
//
//	FUNET_SOCKET  the daemon's socket      FUNET_NODE   the node's number
//	FUNET_GID     the group                FUNET_NODES  how many there are
//	FUNET_TOKEN   the job's token in hexadecimal
//
// in the environment, from which package attach takes its configuration. The token is never on a
// command line, where other users could read it.
//
// # Rules
//
//   - The death of the launcher's machine ends what it started on other hosts: agents hear no more of it for
//     Options.HostTimeout (pulse.go).//
//   - What a node prints comes out in whole lines with its number before them (output.go).
//     Standard input goes to node 0.
//   - SIGINT, SIGTERM and SIGHUP go to all processes, each to the whole process group; those that
//     are still there some seconds later are killed, and a second SIGINT kills at once. The exit
//     code is then 128 and the signal's number.
//   - The first node that fails gives the exit code, 128 and the number for a signal; the others
//     are ended: SIGTERM, some seconds, SIGKILL, each to the whole process group. So is everything that a
//     node that has ended left of its group.
//   - A host that has died ends the job: its agent says twice a second that it lives, over any
//     transport, and is given up when it has not been heard for Options.HostTimeout (pulse.go). One line names host and
//     nodes, the other nodes are ended, and the exit code is HostLost, also if other nodes failed of it before.
//   - The end of this process, even by SIGKILL, ends the processes (PR_SET_PDEATHSIG, prctl(2);
//     on other hosts the agent ends with its connection), and frees the group, which
//     lives as long as the connection that made it (package attach).
//   - Processes are started by one thread, which has first become the user that they run as
//     (thread.go): it finds programs, opens files and connects to the daemon as that user. Only
//     a program that this user cannot reach is opened by the launcher (program.go).
//   - What root starts as another user gets nothing of root's: no privilege and no way to one
//     (no_new_privs), no terminal (process.go), an environment that is composed and not
//     inherited (environment.go), pipes for standard input and output, and no other descriptor. Where the program runs as who started it, it has what that user has.
package launch
