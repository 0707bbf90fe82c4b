// Package scoreboard models the functional units of a virtualised interface, and how requests are
// issued to them (Froening's thesis, sections 2.3.2 and 3.2.2 to 3.2.6; here "thesis").
//
// The journey of a request:
//
//	issue queue   Offer puts it at the end. For requesters this is the conditional store buffer.
//	scoreboard    In each time slot the policy looks at the first requests of the queue. The
//	              scoreboard has the ordering key of each request in a unit. It says to which
//	              unit a request may go.
//	wait queue    With wait queues, the request waits there until the unit's first stage is free.
//	stages        The request moves by one stage a slot. A unit holds one request a stage.
//	the end       After its last stage the request leaves, if the receiver takes it. If not, it
//	              stays and holds up what is behind it in the unit.
//
// A [Card] has three groups of units: requesters, responders and completers. Any unit of a group
// serves any context, so a request brings its context along (simultaneous multithreading, 3.2.2).
// The groups differ in where requests come from and go to (2.3.1): a Put goes from a requester to a
// completer of the other card; a Get to a responder there, and back to a completer.
//
// Rules:
//
//   - No request overtakes another with the same key. It is issued only to the unit in which the
//     other is, and stays behind one that waits in the issue queue. In a unit nothing overtakes.
//   - The issue queue is first in, first out but for the requests that a policy may take from
//     behind its head: from at most Policy.Window.
//   - Every queue is bounded. Offer returns false when the issue queue is full, and the caller
//     keeps the request. A full wait queue leaves requests in the issue queue.
//   - Nothing is lost, and nothing is executed twice.
//
// The thesis gives no times for stages, so a slot has no length here: the caller has one.
//
// This is no part of package engine. The engine's units (engine/units.go) are one of each kind and
// move a packet by transactions over a bus. They take slots from a context's queue in its order,
// and the engine promises no order of messages. Several units with stages would need a second copy
// of retrieval and delivery beside those that the native and the SBus card share, for a machine
// whose bus no text describes. Here only requests and their keys move.
//
// Nothing has a clock, a goroutine, a lock or a random number, and nothing allocates once it is
// made. A Card and its Groups belong to one goroutine.
package scoreboard
