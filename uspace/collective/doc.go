// Package collective is the operations of all nodes of a group together, with the names and the
// meaning that they have in MPI: barrier, broadcast, gather, scatter, all-gather, all-to-all,
// reduce, all-reduce and scan. They are plain code over messages with tags, and run in the
// goroutine that calls them.
//
// The journey of an operation: each node calls it with the same root and lengths. The operation
// gets the group's next number, which is its tag. Then the node exchanges messages with some
// others, as the operation's algorithm says:
//
//	Barrier          dissemination (Hensgen, Finkel and Manber 1988)         ceil(log2 N) rounds
//	Broadcast        binomial tree                                           ceil(log2 N) rounds
//	Gather, Scatter  binomial tree for blocks up to Short, else directly ceil(log2 N) or N-1
//	                 rounds at the root
//	AllGather        doubling (Bruck et al. 1997) up to Short, else a ring ceil(log2 N) or N-1
//	                 rounds
//	AllToAll         pairwise exchange                                       N-1 rounds
//	Reduce           binomial tree                                           ceil(log2 N) rounds
//	AllReduce        Reduce to node 0, then Broadcast                        twice as many
//	Scan             doubling (Hillis and Steele 1986)                       ceil(log2 N) rounds
//
// Rules:
//
//   - All nodes call the same operations in the same order. A node that sees a wrong length returns
//     ErrLengths. Other differences are not noticed, and may leave nodes waiting until they are
//     cancelled, as in MPI.
//   - A reduction combines the nodes' values in an order that depends on N and the root alone. So
//     floating-point results are the same each time, and those of AllReduce are the same on each
//     node.
//   - After an error the nodes are no longer at the same operation. The group is unusable until all
//     of them have agreed on a new number (Renumber).
//
// A Group belongs to one goroutine at a time.
package collective
