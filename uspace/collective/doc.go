// Package collective is the operations of all nodes of a group together, with the names and the
// meaning that they have in MPI: barrier, broadcast, gather, scatter, all-gather, all-to-all,
// reduce, all-reduce and scan. They are plain code over messages with tags, of the goroutine that
// calls them.
//
// The journey of an operation: each node calls it with the same root and lengths, and gives it the
// next number of the group, which is its tag. Then it exchanges messages with some others, as the
// operation's algorithm says:
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
//   - All nodes call the same operations in the same order. Lengths that differ are ErrLengths
//     where a node sees it; other differences are not found out, and may end in waiting until it is
//     cancelled, as in MPI.
//   - A reduction combines what the nodes give in an order that depends on N and the root alone. So
//     the results of floating-point operations are the same each time, and those of AllReduce on
//     each node.
//   - After an error the nodes are not at the same place any more. The group is of no further use
//     until all of them have agreed on a new number (Renumber).
//
// A Group belongs to one goroutine at a time.
package collective
