// Package scale runs one pattern of traffic on a simulated network of up to 65,536 nodes, each with
// the card that ships, and checks its outcome.
//
// # Patterns
//
// Of most patterns each node sends the same number of messages, and pattern.go says where each
// goes. The patterns can be inverted, so a node knows what it has to get, and how many peers its
// card needs. program.go is the program of a node: it sends, and checks that each message arrives
// once, from the right node, with its content. The pattern barrier calls am's Barrier instead.
//
// # Hops
//
// A hop is a packet's visit to a router. The routers count them. hops.go computes what they must
// come to: in closed form for messages over a distance on a network whose places are all taken, and
// else from the ways of the network. Acknowledgments and greetings carry no packets and count as
// frames only.
//
// # Rules
//
//   - The network is in parts whose number the network gives (package sim, parts.go). So the
//     result, with its hash, does not depend on the number of processors.
//   - An Arctic network loses no frame. So a card that sends a frame again is an error.
package scale
