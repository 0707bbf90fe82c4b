// Package command is what the programs funet, funet-bench and funet-paper share: a tree of commands
// with its help, completion, signals and exit codes, and the way from funet to the others.
//
// funet has some commands in programs of their own, as git has: a [Part] names such a command and
// its program. funet looks for the program beside itself, then in PATH, and executes it in its own
// process with the whole command line ([HandOver]). So terminal, signals and exit code are the
// program's. A line of help or completion about the command goes the same way. Each program's tree
// begins with the word funet, so that its help reads the same as if funet had printed it.
//
// These are the steps of a program: [Tree.Root] makes the tree. [Tree.Main] runs the command that
// the line names, ends its context at the first signal, and prints its error as one line.
package command
