// Command mutants breaks the engine on purpose, one rule at a time, and shows that the
// chaos runs or a unit test notice: a check that cannot fail proves nothing. It is the program that
// `make mutants` runs.
//
//	go run ./tests/mutants             all mutations
//	go run ./tests/mutants NAME...     some of them
//
// The mutations, in the order of mutations.go:
//
//	incarnation        frames are taken whatever epoch, and so whatever lives of the cards, they
//	                   are of
//	nonce              a greeting is believed that echoes no nonce
//	spent              a nonce that has begun an epoch begins another
//	redrawn            a greeting that is overtaken gets another nonce
//	earlier            a greeting of an earlier life has two cards begin another epoch
//	obituary           news of an earlier life of a peer end the present one
//	mourned            what is sent to a peer whose process has ended waits for it
//	buried             a greeting of a life that has ended makes a peer of it
//	doubted            the owner is asked about a silent peer again and again
//	vouched            a silent peer is given up although its owner says that it lives
//	awoken             such a peer is given up when it is heard again
//	impossible         acknowledgments of what was never sent make nobody count anew
//	answered           as many greetings are answered as somebody forges
//	said               frames are longer than the peer's port carries
//	unsealed           frames that are not sealed are taken from a peer with a key
//	replayed           a sealed frame is opened as often as it comes
//	counter            every frame is sealed with the same counter
//	unsaid             a card with a key begins an epoch, and says so once
//	open               forged frames are answered for ever once a peer has greeted
//	signed             a greeting that names the key is authentic
//	number             a greeting is taken as often as it comes
//	readable           frames are readable if the peer is content with that
//	duplicate          a frame that was accepted behind a gap is accepted again
//	verdict            a repeated frame gets a new verdict instead of its old one
//	fate               who observes a card is told the fate of the frame before
//	negative           a transient reject frees the line as if it were an acknowledgment
//	permanent          a packet rejected for good does not come back to its process
//	halves             the packets that a mixed verdict accepted are sent again
//	group              a packet is delivered by its node number, in any group
//	job                a packet is delivered by its GID and node number, to any job
//	expected           a node that is to come lets the packets of any job wait for it
//	forged             the table of routes does not say which card a node is on
//	reserved           requests take the lines that are reserved for replies (thesis 2.10)
//	cumulative         a frame beyond a gap moves the acknowledgment over the gap
//	foreseen           a frame like the one before is taken whatever groups and peers the card has
//	                   by now
//	series             a frame like the one before is taken whatever its epoch
//	inorder            every frame counts as the next one while no rejects are remembered
//	only               an acknowledgment of one frame of several ends the watch over all
//	unsent             an acknowledgment of what was never sent is believed
//	timer              the retransmission timer is never armed
//	forgotten          an overtaken frame is only counted, and not sent again
//	backoff            a rejected stream tries again at once
//	leak               an accepted packet that was alone in its flow keeps its line
//	kept               an accepted packet of several keeps its line
//	fifo               a full receive FIFO accepts a packet and drops it
//	tail               a long transfer goes on to its end while packets of it are not answered
//	retired            a slot is retired though blocks of its transfer are in flight
//	held               a segment is unregistered from which blocks in flight are read
//	withdrawn          blocks in flight are read from a segment that was withdrawn
//	source             a transfer reads memory that its process did not register to be read
//	destination        a transfer writes memory that its receiver did not register to be written
//	unchecked          a transfer to memory that is not there is acknowledged
//	life               a notice comes to a process that got the end of a transfer, whoever got the
//	                   rest
//	age                a sender may have more frames unanswered than the window
//	window             a sender has more frames unanswered than the window
//	overtaken          two later frames that overtake one are enough to send it again
//	ambiguous          the round-trip time of a frame that was sent again is measured
//	parked             a parked flow forgets how far the card has come with the peer's frames
//	priority           requests leave before replies
//	given-up           frames that a sender gave up are waited for
//	switched           a context that is switched out loses what was drained
//	mode               a context in context-switch mode goes on sending
//	called             a step forgets whom to wake for what was published before it
//	committed          a context that is out is idle whatever it has committed
//	void               the receiver of a void frame says of the first packet only that it did not
//	                   come
//	piece              the second piece of a block that became shorter goes where the first went
//	silent             frames that the way drops without a word are never suspected
//	awaited            a node that does not come is expected for ever
//	tries              the tries of an account after rejects are not bounded
//	vain               a context that comes back books tries that it does not make
//	traced             records of traced packets that nobody takes are written over each other
//	seen               a slot counts as seen when it is retrieved, however long it waited
//	removed            a peer that was removed is one still
//	parted             what waits for a peer that was removed is not returned
//	account            an account sends as much as it likes in a round
//	insolvent          an account that rests sends on
//	sleepless          while an account rests the card goes on without a pause
//	restless           the card serves the processes of an account that rests
//	uncharged          what arrives is charged to nobody
//	orphan             the account that pays for a group's absent nodes is forgotten with its last
//	                   context
//	unbounded          the last step before a sleep does all that there is
//	bytes              blocks within the card cost nothing of what a step may copy
//	jump               collective calls go on with a number of a call before Agree
//	last               and with node 0's own number, whatever the others have reached
//	view               Agree ends although nodes know other lives
//	fence              a node that was given up is not told
//	expelled           a node ends by what is said of another life of it
//	joined             a hello that is said again joins again
//	over               a life that is over joins
//	landing            memory of a message that was given up is used again at once
//	fetched            a receive waits on for a message that its sender has cancelled
//	round              a message of the last barrier that comes back is not told again
//	bounds             an operation may begin in a window and end behind it
//	rights             whoever has a key may do everything
//	lock               a window is locked for nobody
//	unlocked           any life of a node ends a lock
//	alignment          elements may lie anywhere
//	suspended          a window that is suspended is there
//	busy               an operation is carried out though there is no line for its answer
//	reread             what an operation answers is read when it has been carried out
//	notifying          puts notify as often as they like
//	atomic             an add is a load and a store
//	beside             an operation on a byte clears those beside it
//	generation         an answer to an earlier request is one to a later
//	responder          anybody answers
//	posted             an answer may end behind what was asked for
//	entry              operations leave without an entry for their completion
//	early              the trailer of a put does not wait for its data
//	revoked            answers are read from a window that was closed
//	unanswered         an operation waits for ever for its answer
//	untold             what is complete while a context is away is never told
//	hasty              an operation on a modelled machine's card is carried out before its time
//	entries            entries of the window table that a card does not hold take no time
//	stored             the data of answers take no time
//	costly             an operation that is refused takes the time of one that is not
//	holds              a frame is judged however long ago its peer was lost
//	asleep             a flow is put away while a frame of it waits to be judged
//	retimed            a card that is about to sleep forgets when an unanswered frame is to be
//	                   sent again
//	alternate          packets for the card itself are always before those of others
//	calm               an answer to a context of the same card waits until something else happens
//	swaps              who may only write learns what was there
//	keyed              any key opens a key slot that is open
//	limit              a remote write may end beyond its key slot
//	binding            an area counts for every key slot
//	delta              the last packet of a remote write does not take back what the others have
//	                   counted
//	zeroing            an area that is reset goes on counting where it was
//	credit             an area is notified of more than it has credit for
//	ahead              notifications that wait for a modelled machine's unit have no part in the
//	                   credit
//	behind             closing a key slot comes before writes that were accepted and wait for a
//	                   modelled machine's unit
//	started            starting DMA takes no time
//	bussed             direct I/O is fetched over the bus, and started as DMA is
//	sent               a message's host is told of each packet that has left
//	metadata           metadata that stand in the record go over the bus besides
//	unhosted           the card's processor does nothing for a block but take it off the link
//	unwaited           a block is written as soon as it is accepted, whatever the bus has moved
//	leftover           a packet takes as long as the write that had its line before
//	forgot             of the nodes that returns were lost for, and the process has not heard of,
//	                   the last alone is under suspicion
//	again              now and then an operation on elements is carried out twice
//	apart              operations whose returns are lost are not counted
//	suspected          of the messages that may have come back, those that are not retired are
//	                   forgotten
//	another            a block of a chain that came back is taken for one of package rats
//	pending            operations whose returns were lost are under way for ever
//	doomed             operations that the card has are given up when others came back
//	unheard            a return that is lost while the ring is read is not told before another
//	                   comes
//	everybody          all nodes are under suspicion whose numbers are like that of one that a
//	                   return was lost for
//	closed             a key slot that is closed stays open
//	within             the key slots in a segment outlive it
//	counted            each piece of a block counts
//	unread             an area is opened whose number still has notifications in the ring
//	guessed            keys may be guessed as often as one likes
//	neighbour          nodes with similar numbers share a count of wrong keys
//	late               a late write that was copied holds its slot
//	copied             a late write is said to be copied, and is not
//	lateness           late writes are copied without bound
//	aside              one remote write takes all lines
//	unresumed          a remote write that was set aside never goes on
//	unshared           remote writes to each of many silent cards take half of all lines
//	replaced           a write that was copied because it is late goes back among the records that
//	                   are free
//	repaid             what late writes had of an account is not given back
//	page               a get asks for more than the rest of a page
//	withheld           others wait for ever for a window that its owner never brings back
//	mute               a window is suspended whose process could not be told
//	unrouted           a packet waits for ever for a route that never comes
//	routed             a packet waits on when its node has a route
//	fault              the owner of a window is told of each miss
//	chain              a member of a chain sends on before it delivers
//	loop               a member takes a multicast that is to reach another number of members than
//	                   are behind it
//	diamond            a member takes a multicast from another node than its parent
//	crossing           what waits on one chain stops others
//	impatient          a multicast is given up while members on its way are full
//	posing             a first member takes multicasts in others' names
//	overcounted        reports count more members than there are
//	unfetched          the data of a multicast takes a modelled machine's Retrieval Unit no time
//	unqueued           a copy of a multicast takes a modelled machine's Delivery Unit no time
//	weightless         a copy of a put takes a modelled machine's bus no time
//	unrecorded         the completion of a multicast takes a modelled machine's bus no time
//	unproven           whoever has had no copy of a multicast reports on it
//	twice              a member that was reported on twice counts twice
//	certain            a member whose acknowledgment was lost for good does not have its copy
//	places             the branches of a chain have the same places
//	owing              a sign never counts as told what it has told of other nodes
//	home               any card says where a node is
//	handed             areas do not move with their context
//	unlisted           a card that gets its first node of a group hears of no earlier moves
//	whole              a block that was to go in pieces goes to its new home in one, and does not
//	                   count
//	stale              old news of another node, which is about to arrive itself, is believed
//	hops               a card that has missed several moves is told of one after the other
//	return             a context that is back takes what began before a peer's restart for what
//	                   its former life had
//	unreported         nobody hears where a chain is broken
//	ring               a stream's sender writes more than its ring has room for
//	parts              a part of a stream that has overtaken another is read before it
//	boasted            a message of a stream is as long as whoever sent it says, also beyond the
//	                   ring
//	release            a stream's reader gives back what it has not read
//	halfclose          the end of a stream overtakes what was written before
//	turns              a stream sends long messages without waiting for its turn
//	others             datagrams and answers may take all long messages to a node
//	borrowed           memory that a message is sent from is free before the card has taken it
//	given              memory that was handed out counts as free
//	unwoken            a process that sleeps until others write into its memory is not woken
//	premature          it hears of a write before the data is there
//	unwatched          a wake ends what a process has asked for
//	lastpiece          a drained slot of an image has more words than its packet has room for
//	drained            an image's drained slots are not checked
//	halfway            an image that is refused has changed the context
//	authority          an image says how far the card's generations have come
//	trailplaces        a trail has no places for the lines of chains
//	shared             lines of chains have the places of others
//	port               a frame in a peer's name is taken at any port
//	porthole           a frame like the one before is taken at any port
//	unsendable         a remote write may send memory that is not for sending
//	freeslot           a slot that makes no packet counts for nobody
//	freerefusal        a slot that is refused counts for nobody
//	freemode           a change of CNTL counts for nobody
//	freebell           a bell counts for nobody
//	freetry            finding no room for a packet to this card counts for nobody
//	freelook           a look that finds no line counts for nobody
//	freeabsence        frames for nodes that are absent count for nobody
//	freeanswer         frames that bring only acknowledgments count for nobody
//	freeacknowledgment frames that only acknowledge count for nobody
//	freerepeat         frames that are sent again count for nobody
//
// Each replaces one snippet of one file, which must be there exactly once: where the engine
// changes, its mutation is written anew. The mutant is a file in a temporary folder that the
// compiler is told to use instead (go help build, -overlay). So the tree is never written to and
// there is nothing to restore, even if this program is killed. Only the temporary folder may be
// left then. A mutant that does not compile, and a check that runs into its time limit, is an
// error. In the end the unchanged engine must pass every check.
//
// The exit status is 0 if every mutant was caught.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
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

// run tries the named mutations, or all, and then the unchanged engine.
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
	t := newTable(chosen)
	fmt.Printf("chaos FAULTS is funet %s FAULTS; the other checks are tests of %s, or of its package link, or of packages am, rats, rma and funi.\n\n", chaosRun, engineFolder)
	t.head()
	var wrong []string
	rows := 0
	var checks []check
	for _, m := range chosen {
		for _, c := range m.checks {
			if !t.row(m.name, c, func() (string, error) { return b.catch(ctx, m, c) }) {
				wrong = append(wrong, m.name+": "+c.String())
			}
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", ctx.Err())
			}
			if rows++; !slices.Contains(checks, c) {
				checks = append(checks, c)
			}
		}
	}
	for _, c := range checks {
		if !t.row("none", c, func() (string, error) { return b.pass(ctx, c) }) {
			wrong = append(wrong, "none: "+c.String())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d rows are not as they must be (%s): a survivor needs a test, a snippet that is gone another mutation",
			len(wrong), rows+len(checks), strings.Join(wrong, "; "))
	}
	fmt.Printf("\nAll %d mutations were caught, and the engine as it is passes all %d checks.\n",
		len(chosen), len(checks))
	return nil
}

// table prints a row for each run. What is known of a row stands there while the run
// is under way.
type table struct {
	name, check int // widths
}

func newTable(rows []mutation) table {
	t := table{name: len("mutation")}
	for _, m := range rows {
		t.name = max(t.name, len(m.name))
		for _, c := range m.checks {
			t.check = max(t.check, len(c.String()))
		}
	}
	return t
}

func (t *table) head() {
	fmt.Printf("%-*s  %-*s    took  what it says\n", t.name, "mutation", t.check, "check")
}

// row reports whether the run ended as it must.
func (t *table) row(name string, c check, run func() (string, error)) bool {
	fmt.Printf("%-*s  %-*s  ", t.name, name, t.check, c)
	began := time.Now()
	said, err := run()
	if err != nil {
		said = err.Error()
	}
	fmt.Printf("%4.1f s  %s\n", time.Since(began).Seconds(), said)
	return err == nil
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
