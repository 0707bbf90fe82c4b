// Command mutants breaks the engine, its links and the libraries on purpose, one rule at a time. It
// shows that a unit test or a chaos run notices each mutation: a check that cannot fail proves
// nothing. `make mutants` runs this program.
//
//	go run ./tests/mutants             all mutations
//	go run ./tests/mutants NAME...     some of them
//
// The mutations, in the order of mutations.go:
//
//	incarnation        frames of any epoch are accepted, and so those of other incarnations of the
//	                   cards
//	nonce              a greeting without the echo of a nonce is believed
//	spent              a nonce that has begun an epoch begins another
//	redrawn            a greeting that another overtook gets a new nonce
//	earlier            a greeting of an earlier incarnation makes two cards begin another epoch
//	obituary           news of an earlier life of a peer end the present life
//	mourned            packets for a peer whose process has ended wait for it
//	buried             a greeting of a life that has ended makes it a peer again
//	doubted            the owner is asked about the same silent peer again and again
//	vouched            a silent peer is given up although its owner reports that it lives
//	awoken             such a peer is given up when frames from it arrive again
//	impossible         acknowledgments of frames that were never sent cause no new epoch
//	answered           every forged greeting is answered, without a limit
//	said               frames are longer than the peer's port carries
//	unsealed           unsealed frames are accepted from a peer with a key
//	replayed           a sealed frame is opened each time it arrives
//	counter            every frame is sealed with the same counter
//	unsaid             a card with a key begins an epoch, and announces that only once
//	open               forged frames are answered without end once a peer has greeted
//	signed             a greeting counts as authentic if it names the key
//	number             a greeting is accepted each time it arrives
//	readable           frames stay unencrypted if only the peer agrees to that
//	duplicate          a frame that was accepted beyond a gap is accepted again
//	verdict            a repeated frame gets a new verdict instead of its old one
//	fate               an observer of a card is told the fate of the frame before
//	negative           a transient reject frees the line as if it were an acknowledgment
//	permanent          a packet that is rejected for good does not return to its process
//	halves             packets that a mixed verdict accepted are sent again
//	group              a packet is delivered by its node number, to any group
//	job                a packet is delivered by its GID and node number, to any job
//	expected           packets of any job may wait for an expected node
//	forged             the table of routes is not asked which card a node is on
//	reserved           requests take the lines that are reserved for replies (thesis 2.10)
//	cumulative         a frame beyond a gap moves the acknowledgment over the gap
//	foreseen           a frame like the one before is accepted although groups or peers have
//	                   changed since
//	series             a frame like the one before is accepted whatever its epoch
//	inorder            every frame counts as the next one while no rejects are remembered
//	selected           frames between those that an acknowledgment names count as named
//	unsent             an acknowledgment of a frame that was never sent is believed
//	timer              the retransmission timer is never armed
//	forgotten          an overtaken frame is counted, but not sent again
//	backoff            a rejected stream tries again at once
//	kept               an accepted packet keeps its line
//	fifo               a full receive FIFO accepts a packet and drops it
//	tail               a long transfer goes on to its end while packets of it are unanswered
//	retired            a slot is retired though blocks of its transfer are in flight
//	held               a segment is unregistered while blocks in flight are read from it
//	withdrawn          blocks in flight are read from a segment that was withdrawn
//	source             a transfer reads memory that its process did not register to be read
//	destination        a transfer writes memory that its receiver did not register to be written
//	unchecked          a transfer to memory that does not exist is acknowledged
//	life               a process is notified of a transfer whose end it received, even if another
//	                   life received the rest
//	age                a sender may have more unanswered frames than the sequence window
//	window             a sender has more unanswered frames than the sequence window
//	overtaken          two later frames that overtake a frame are enough to send it again
//	ambiguous          the round-trip time of a frame that was sent again is measured
//	parked             a parked flow forgets up to which number it has handled the peer's frames
//	priority           requests leave before replies
//	given-up           frames that a sender gave up are waited for
//	switched           a context that is switched out loses what was drained
//	mode               a context in context-switch mode goes on sending
//	called             a step forgets which processes to wake for what was published before it
//	committed          a context that is out counts as idle even with committed messages
//	void               the receiver of a void frame reports only the first packet as missing
//	piece              the second piece of a block that became shorter is written where the first
//	                   piece was
//	silent             a path that silently drops long frames is never suspected
//	awaited            a node that does not come is expected without end
//	tries              the tries of an account after rejects are not bounded
//	vain               a context that comes back is charged for tries that it does not make
//	lastword           a switch may defer a frame for ever
//	strangers          a switch may defer the frames of streams that the card has answered
//	older              frames may be deferred that the peer refuses for their flag
//	unkeyed            deferrals count between cards with a key
//	debts              what a peer is owed is lost with a deferred frame
//	makeroom           a deferred frame keeps its number while others wait for it
//	abreast            the first frames for nodes of an absent group leave at once, however many
//	lively             a deferral is a sign of life of the card that did not get the frame
//	putoff             a deferral puts off the retransmission of other frames
//	unstill            a deferred frame keeps its owner from being still
//	finality           a deferral rejects its frame for good
//	traced             records of traced packets that are not read are overwritten
//	seen               a slot counts as seen when it is retrieved, however long it waited before
//	removed            a peer that was removed is still one
//	parted             packets for a peer that was removed are not returned
//	account            an account sends as much as it wants in a round
//	insolvent          an account that rests sends on
//	sleepless          while an account rests the card goes on without a pause
//	restless           the card serves the processes of an account that rests
//	uncharged          no account pays for packets that arrive
//	orphan             the account that pays for a group's absent nodes is forgotten with its last
//	                   context
//	unbounded          the last step before a sleep has no bound on its work
//	bytes              blocks within the card do not count in the bytes that a step may copy
//	jump               collective calls go on with the number of a call before Agree
//	last               collective calls go on with node 0's own number, whatever number the others
//	                   have reached
//	view               Agree ends although nodes know of different lives
//	fence              a node that was given up is not told so
//	expelled           a node ends because of a message about another life of it
//	joined             a hello that is repeated joins again
//	over               a life that has ended joins
//	landing            memory of a message that was given up is used again at once
//	fetched            a receive goes on waiting for a message that its sender has cancelled
//	round              a message of the last barrier that returns is not sent again
//	bounds             an operation may begin in a window and end beyond it
//	rights             a key gives all rights
//	lock               a lock on a window excludes no node
//	unlocked           any life of a node can end a lock
//	alignment          elements may have any address
//	suspended          a suspended window counts as present
//	busy               an operation is carried out although there is no line for its answer
//	reread             the words of an answer are read after the operation has been carried out
//	notifying          puts notify without a limit
//	atomic             an addition is a load and a store
//	beside             an operation on a byte clears the bytes beside it
//	generation         an answer to an earlier request is accepted for a later one
//	responder          an answer is accepted from any node
//	posted             an answer may end beyond the memory that was asked for
//	entry              operations leave without an entry for their completion
//	early              the trailer of a put does not wait for its data
//	revoked            answers are read from a window that was closed
//	unanswered         an operation waits for ever for its answer
//	untold             operations that complete while a context is away are never reported
//	hasty              an operation on a modelled machine's card is carried out too early
//	entries            window table entries that a card does not hold take no time
//	stored             the data of answers take no time
//	costly             an operation that is refused takes the time of one that is carried out
//	holds              a frame is judged however long ago its peer was lost
//	asleep             a flow is put away while a frame of it waits to be judged
//	retimed            a card that is about to sleep forgets the time at which an unanswered frame
//	                   is to be sent again
//	alternate          packets for the card itself always go before those of others
//	calm               an answer to a context of the same card waits until something else happens
//	swaps              a key with the right to write only also reads the old value
//	keyed              any key gives access to a key slot that is open
//	limit              a remote write may end beyond its key slot
//	binding            an area counts for every key slot
//	delta              the last packet of a remote write does not take back the count of the
//	                   others
//	zeroing            an area that is reset goes on counting where it was
//	credit             an area is notified more often than it has credit for
//	ahead              notifications that wait for a modelled machine's unit do not count against
//	                   the credit
//	behind             a key slot closes before accepted writes that wait for a modelled machine's
//	                   unit
//	started            starting DMA takes no time
//	bussed             direct I/O is fetched over the bus, and started as DMA is
//	sent               a message's host is told of each packet that has left
//	metadata           metadata that are in the record also go over the bus
//	unhosted           the card's processor only takes a block off the link
//	unwaited           a block is written as soon as it is accepted, before the bus has moved it
//	leftover           a packet takes as long as the write that had its line before
//	watched            an empty poll looks at bits of words that do not matter
//	brimful            words that are too many for an empty poll are left out
//	forgot             of the nodes with lost returns that the process has not heard of, only the
//	                   last is suspected
//	again              now and then an operation on elements is carried out twice
//	recount            now and then an operation counts twice
//	prompt             a get counts before the answers to its first packets are there
//	unfelt             nothing wakes a process that waits for a count
//	homeless           a window that has moved stays open when its segment is withdrawn
//	apart              operations with lost returns are not counted
//	suspected          of the messages that may have returned, those that are not retired are
//	                   forgotten
//	another            a block of a chain that returned is taken for one of package rats
//	pending            operations with lost returns are under way without end
//	doomed             operations that the card has are given up when others returned
//	unheard            a return that is lost while the ring is read is not reported until another
//	                   one arrives
//	everybody          all nodes with a number like that of a node with a lost return are
//	                   suspected
//	closed             a key slot that is closed stays open
//	within             key slots in a segment stay open after it
//	counted            each piece of a block counts
//	unread             an area is opened whose number still has notifications in the ring
//	guessed            keys may be guessed without a limit
//	neighbour          nodes with similar numbers share a count of wrong keys
//	late               a late write that was copied holds its slot
//	copied             a late write is reported as copied, and is not
//	lateness           late writes are copied without a limit
//	aside              one remote write takes all lines
//	unresumed          a remote write that was set aside never goes on
//	unshared           remote writes to many silent cards take half of all lines for each card
//	replaced           a write that was copied because it is late returns to the free records
//	repaid             the bytes of late writes are not given back to an account
//	page               a get asks for more than the rest of a page
//	withheld           operations on a window that its owner never brings back wait without end
//	mute               a window is suspended although its process cannot be told
//	unrouted           a packet for a route that never comes waits without end
//	routed             a packet goes on waiting when its node has a route
//	fault              the owner of a window is told of every miss
//	chain              a member of a chain sends on before it delivers
//	loop               a member accepts a multicast for a number of members other than the number
//	                   behind it
//	diamond            a member accepts a multicast from a node that is not its parent
//	crossing           packets that wait on one chain stop other chains
//	impatient          a multicast is given up while members on its path are full
//	posing             a first member accepts multicasts in other nodes' names
//	overcounted        reports count more members than there are
//	unfetched          the data of a multicast takes a modelled machine's Retrieval Unit no time
//	unqueued           a copy of a multicast takes a modelled machine's Delivery Unit no time
//	weightless         a copy of a put takes a modelled machine's bus no time
//	unrecorded         the completion of a multicast takes a modelled machine's bus no time
//	unproven           a node that has had no copy of a multicast can report on it
//	twice              a member with two reports counts twice
//	certain            a member whose acknowledgment was lost for good counts as one without its
//	                   copy
//	places             the branches of a chain have the same places
//	owing              a sign does not count the news of other nodes that it has told
//	home               any card may say where a node is
//	handed             areas do not move with their context
//	unlisted           a card that gets its first node of a group does not learn of earlier moves
//	whole              a block that was to go in pieces goes to its new home in one piece, and
//	                   does not count
//	stale              old news of another node that is about to arrive itself is believed
//	hops               a card that has missed several moves is told of one after the other
//	return             a context that is back takes transfers from before a peer's restart for
//	                   those of its former life
//	unreported         no node learns where a chain is broken
//	ring               a stream's sender writes more than its ring has room for
//	parts              a part of a stream that has overtaken another is read before it
//	boasted            a message of a stream is as long as its sender says, even beyond the ring
//	release            a stream's reader gives back bytes that it has not read
//	halfclose          the end of a stream overtakes bytes that were written before
//	turns              a stream sends long messages without waiting for its turn
//	others             datagrams and answers may take all long messages to a node
//	borrowed           memory that a message is sent from is free before the card has read it
//	given              memory that was handed out counts as free
//	unwoken            a process that sleeps until its memory is written is not woken
//	premature          such a process learns of a write before the data is there
//	unwatched          a wake clears all that a process has asked for
//	lastpiece          a drained slot of an image has more words than its packet has room for
//	drained            an image's drained slots are not checked
//	halfway            an image that is refused has changed the context
//	authority          an image sets how far the card's generations have come
//	trailplaces        a trail has no places for the lines of chains
//	shared             lines of chains have the places of others
//	port               a frame in a peer's name is accepted at any port
//	porthole           a frame like the one before is accepted at any port
//	unsendable         a remote write may send memory that is not for sending
//	freeslot           no account pays for a slot that makes no packet
//	freerefusal        no account pays for a slot that is refused
//	freemode           no account pays for a change of CNTL
//	freebell           no account pays for a bell
//	impostor           an end of a path takes packets of another end of its origin's card
//	earlierpath        an end of a path takes packets of an earlier path between the same ends
//	enabledearly       the origin enables its end before the target has taken its answer
//	overrun            a packet of a path is stored in a slice that the process has not given back
//	unfinished         the card uses the memory of an end that was closed
//	outlived           an end of a path does not ask whether the other is there
//	hoardedpaths       one account may have all ends of paths
//	unacknowledged     a line that was not delivered is not reported to who asked
//	overflow           a trigger that finds the conditional store buffer full is answered as taken
//	hoarded            one account may have all of the conditional store buffer
//	overissued         a trigger issues more slots than the queue has
//	overread           a trigger gives back more notifications than there are
//	interrupted        a trigger that overtook another is carried out
//	recounted          a member that reaches a barrier twice counts twice
//	unreached          a barrier is complete before its last member has reached it
//	rounds             a process in the place of a dead one counts at a round that is not its own
//	unissued           slots in the conditional store buffer are lost when the queues halt
//	passing            a request whose key is in a full unit goes to another
//	scattered          requests with one key go to any units
//	cleared            a wait queue's keys are not on the scoreboard
//	indebted           an account that sleeps pays nothing of what it owes
//	sleepfree          contexts fall asleep at nobody's expense
//	sleepresting       contexts whose account rests are put to sleep
//	hidden             bells behind the page are not heard
//	nearer             contexts of rows take near bells
//	unbelled           a page that has contexts gets no bells behind it
//	haltawake          a context that has halted does not sleep
//	shown              the entry of a message is made before all of it is there
//	hastened           the last packet of a message is taken before the others
//	leaked             the room of a message whose sender has died is never free again
//	clipped            a receiver is not told that a message was cut
//	uncut              a sender is not told that a message was cut
//	overlong           a fast send may have more than five words
//	overgiven          a process gives back more room of its ring than is in use
//	undermined         a process gives back room of a message that is on its way
//	overposted         a process posts more buffers than its queue holds
//	described          a posted buffer may be in any segment
//	overlapped         messages are stored where others are
//	stranger           any node may send pieces of a message
//	starved            a message with room at its receiver waits for lines behind those without
//	blocked            the rest of a message's block waits behind messages that wait for room
//	credited           any number of messages may be unread
//	brought            room of messages on their way goes along when their receiver moves
//	freetry            no account pays for finding no room for a packet to this card
//	freelook           no account pays for a look that finds no line
//	freeabsence        no account pays for frames to absent nodes
//	freeanswer         no account pays for frames that bring only acknowledgments
//	freeacknowledgment no account pays for frames that only acknowledge
//	freerepeat         no account pays for frames that are sent again
//	downup             a way around a wire that has failed goes up after it went down
//	detour             a way through a fat tree passes the first common ancestor by
//	updigit            routers of a large fat tree choose another way up than its ways take
//	onepage            peers of all pages of card numbers share a page
//	nopeer             a node beyond the route table is on a card that is no peer
//	tableless          a card without route tables has only the moved node in a group's table
//	tooearly           a part of a network runs ahead of what another part may send it
//	anyorder           a part takes what other parts have sent in any order
//	takentwice         a node of a pattern takes a message twice
//	around             the closed form of hops leaves out messages around the end
//	unslewed           the clock of turns of groups is not brought nearer to the one that counts
//	orphaned           it goes on following a card that has fallen silent
//	swayed             it follows the lowest-numbered card although most are together
//	trusting           a card that tells others another time goes on to lead
//	untrimmed          times of those that lie count for the middle
//	poser              GIDs that others claim in a host's name use up its share in the cluster
//	hoarder            a host may have any number of GIDs
//	usurper            of two hosts at one place the lower number counts
//	doppelganger       another host may be at this host's place
//	resumed            a host does not notice that etcd was restored while it was away
//	unwaiting          GIDs are given to new jobs at once when etcd was restored
//	crowded            keys below a GID are not looked at that are more than can be read
//	unnamed            hosts are not found behind more keys of others than are read
//	blind              of two jobs that take a GID at once both get it
//	unresting          a card looks all the while whether a switch can go on
//	classless          a group on all hosts has its turn among those of each host
//	jumpy              the number of the turn jumps as often as somebody says so
//	tireless           a group that does nothing keeps its turn
//	forwards           the second of two turns has the order of the first
//	brief              a slow switch leaves nothing of the turn that it begins
//	listless           a group rests although it has moved packets in this turn
//	rebundled          a frame that is sent again travels in a bundle again
//	crammed            a bundle has two frames for one station
//	levelled           a bundle has requests and replies
//	homebound          a direct port's bundle has frames for its own host
//	photocopied        a router makes a copy of a bundle for each frame
//	undrained          a bundle's buffer is free when its first copy has left
//	overtaking         a long frame overtakes those that are kept for a bundle
//	despairing         looks beside a thread that computes are never tried again
//	stubborn           such looks are forgone although they find something
//
// A mutation replaces one snippet of one file. The snippet must be there exactly once: when the
// source changes, its mutation is written anew. The mutant is a file in a temporary folder, which
// the compiler is told to use instead (go help build, -overlay). In the same way the tests that a
// check does not run are left out (trim.go). So the tree is never written to, and there is nothing
// to restore, even if this program is killed. Only the temporary folder may
// remain then. A mutant that does not compile is an error, and so is a check that runs into its
// time limit. A mutant meets the short form of a check first, and all of it if that does not notice
// it. In the end the unchanged engine must pass every check that was used.
//
// The exit status is 0 if every mutant was caught and the unchanged engine passed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the named mutations, or all, and then the unchanged engine, as many at a time as there
// are processors.
func run(ctx context.Context, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	b, err := newBench(ctx)
	if err != nil {
		return err
	}
	defer b.remove()
	var rows, passes []row
	for _, m := range chosen {
		for _, c := range m.checks {
			rows = append(rows, row{m.name, c, func() (string, error) { return b.catch(ctx, m, c) }})
			if !slices.ContainsFunc(passes, func(p row) bool { return p.check == c }) {
				passes = append(passes, row{"none", c, func() (string, error) { return b.pass(ctx, c) }})
			}
		}
	}
	rows = append(rows, passes...)
	fmt.Printf("chaos FAULTS is funet "+chaosRun+"; the other checks are tests of %s, or of its package link, or of packages am, rats, rma, funi, scoreboard, topology, turns, sim, scale, bundle and registry.\n\n", "FAULTS", allSeeds, engineFolder)
	wrong := play(ctx, rows)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", ctx.Err())
	case len(wrong) > 0:
		return fmt.Errorf("%d of %d rows are not as they must be (%s): a survivor needs a test, a snippet that is gone another mutation",
			len(wrong), len(rows), strings.Join(wrong, "; "))
	}
	fmt.Printf("\nAll %d mutations were caught, and the engine as it is passes all %d checks.\n",
		len(chosen), len(passes))
	return nil
}

// row is one run: of a check on a mutant, or on the unchanged engine.
type row struct {
	name  string // of the mutation
	check check
	run   func() (string, error)
}

// end is how a run ended.
type end struct {
	said string
	err  error
	took time.Duration
}

// play makes the runs and prints a table of them, in their order. It returns those that did not
// end as they must.
func play(ctx context.Context, rows []row) (wrong []string) {
	ends := make([]chan end, len(rows))
	for i := range ends {
		ends[i] = make(chan end, 1)
	}
	var next atomic.Int64
	for range runtime.NumCPU() {
		go func() {
			for i := int(next.Add(1)) - 1; i < len(rows); i = int(next.Add(1)) - 1 {
				began := time.Now()
				said, err := rows[i].run()
				ends[i] <- end{said, err, time.Since(began)}
			}
		}()
	}
	name, check := len("mutation"), 0
	for _, r := range rows {
		name, check = max(name, len(r.name)), max(check, len(r.check.String()))
	}
	fmt.Printf("%-*s  %-*s    took  what it says\n", name, "mutation", check, "check")
	for i, r := range rows {
		e := <-ends[i]
		if ctx.Err() != nil {
			continue // until nothing runs any more
		}
		if e.err != nil {
			e.said = e.err.Error()
			wrong = append(wrong, r.name+": "+r.check.String())
		}
		fmt.Printf("%-*s  %-*s  %4.1f s  %s\n", name, r.name, check, r.check, e.took.Seconds(), e.said)
	}
	return wrong
}

// choose returns the mutations with the given names, or all.
func choose(names []string) ([]mutation, error) {
	if len(names) == 0 {
		return mutations, nil
	}
	var chosen []mutation
	for _, n := range names {
		i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == n })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutation %q; see go doc ./tests/mutants", n)
		}
		chosen = append(chosen, mutations[i])
	}
	return chosen, nil
}
