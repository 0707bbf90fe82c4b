/*
 * The handshake of two cards, as uspace/engine/link has it, for spin (Debian's package spin). Names are those of handshake.go,
 * greeting.go, arrive.go and peer.go; each inline says which function it is. check.sh runs all claims and compares.
 *
 * The model has two cards, a network that keeps each frame as long as it likes and delivers frames in any order, also twice or
 * never, and a fate that restarts cards and has them lose each other. RESTARTS, LOSSES, DUPS, LOSES and RESYNCS say how often.
 *
 * Claims:
 *   once     no message is delivered twice
 *   old      no card accepts a frame of an epoch that it has left
 *   agreed   (LIVE) once fate has done its worst both cards hold one epoch, for ever, and know each other's lives
 *   living   (DEAD) no card begins an epoch with a life that has ended; handshake.go says why that cannot be excluded
 *
 * Abstractions:
 *   - Time: a timer fires whenever it is set. So greetings and retransmissions cross as they like, and budgets (answerGap) never
 *     refuse; an answer that finds no room in the network is lost, as one that is refused is.
 *     Greetings that timers repeat, and retransmissions, are not counted: they go on for ever.
 *   - A nonce is a number that nothing refers to any more, neither a card nor a frame under way. A random one of 64 bits is equal to
 *     none that matters, and its name does not count. The same goes for incarnations. Whoever keeps frames for longer is the network.
 *   - An epoch is its two nonces (Epoch in keys.go is a hash of them): card 0's in the upper half.
 *   - One message of card 0 is marked, once in a run, any of them; what holds for it holds for each. An epoch has SEQS sequence
 *     numbers in that direction. Frames of card 1 carry none, only their epoch. Nothing is acknowledged: any frame that was
 *     not returned may be sent again.
 *   - There is no key, and nobody forges: a frame in the network was sent by a card.
 *
 * Planted mistakes: EPOCH, TWICE, REDRAW and STALE, each beside the line of Go that it breaks.
 */

#ifndef SLOTS
#define SLOTS 2         /* what the network holds for each card: greetings, and one frame */
#endif
#ifndef SEQS
#define SEQS 2          /* sequence numbers of an epoch */
#endif

#define WIRES (2*SLOTS)
#define to(s) ((s)/SLOTS)        /* the card that the frame in a slot is for */
#define HELLO 1
#define FRAME 2

/* Epoch(self, from) of card i: keys.go */
#define Epoch(i, own, peer) ((i) == 0 -> ((own)<<4)|(peer) : ((peer)<<4)|(own))
#define part(e, i) ((i) == 0 -> (e)>>4 : (e)&15)

/* What a card has of its peer: the struct handshake, and of the struct peer what matters. */
byte nonce[2], theirs[2], epoch[2], began[2], incarnation[2];
bit used[2], spent[2], attempts[2];
bit established[2];
bit greets[2];                   /* greetAt != 0 */
byte self[2] = 1;                  /* Config.Incarnation */
bit wants[2];                    /* packets wait for the peer */

/* The flow from card 0 to card 1. */
byte sndNext, sndUna;
byte received;                   /* by card 1, a bit for each sequence number */
byte marked = 255;               /* the number of the marked message; 255: it was not sent in this epoch, or has been returned */
bit chosen, delivered;           /* the message was marked, and delivered */

/* The network. */
byte kind[WIRES], fEpoch[WIRES], fNonce[WIRES], fEcho[WIRES], fIncarnation[WIRES];
bit fAsks[WIRES], fMarked[WIRES];
byte fSeq[WIRES];

/* For claim old: the receiver has left the epoch of this frame; of what this card sends now. */
bit fLeft[WIRES], left[2];

/* How often fate may strike. */
byte restarts = RESTARTS, losses = LOSSES, dups = DUPS, loses = LOSES, resyncs = RESYNCS;

/* Temporaries, which are 0 between steps. */
byte n, k, room, e;
short taken;
byte same, proven, answer, anew;

/* draw: handshake.draw. A nonce is one that nothing refers to. */
inline draw(d) {
	taken = 1 | (1<<nonce[d]) | (1<<began[d]) | (1<<part(epoch[d], d)) | (1<<theirs[1-d]) | (1<<part(epoch[1-d], d));
	k = 0;
	do
	:: k < WIRES ->
		if
		:: kind[k] != 0 -> taken = taken | (1<<part(fEpoch[k], d)) | (1<<(to(k) == d -> fEcho[k] : fNonce[k]))
		:: else
		fi;
		k++
	:: else -> break
	od;
	n = 1;
	do
	:: n < 15 && (taken>>n)&1 -> n++
	:: else -> break
	od;
	assert(n < 15);
	nonce[d] = n; used[d] = 0; spent[d] = 0;
	n = 0; k = 0; taken = 0
}

/* attempt: handshake.attempt */
inline attempt(a) {
	if
	:: used[a] -> draw(a)
	:: else
	fi;
	theirs[a] = 0; attempts[a] = 1
}

/* vacant finds room for a greeting to card v: room is WIRES if there is none. A frame has the last slot for itself: else the
   frames of one card could keep its answers out of the network for ever. */
inline vacant(v) {
	room = (v)*SLOTS;
	do
	:: room < (v)*SLOTS+SLOTS-1 && kind[room] != 0 -> room++
	:: else -> break
	od;
	if
	:: room == (v)*SLOTS+SLOTS-1 -> room = WIRES
	:: else
	fi
}

/* sendGreeting: End.sendGreetingThat, and handshake.say */
inline sendGreeting(g) {
	vacant(1-g);
	if
	:: room < WIRES ->
		if
		:: nonce[g] == 0 -> draw(g)
		:: else
		fi;
		kind[room] = HELLO; fEpoch[room] = epoch[g]; fNonce[room] = nonce[g]; fEcho[room] = theirs[g];
		fIncarnation[room] = self[g]; fAsks[room] = !established[g]
	:: else
	fi;
	room = 0
}

/* leaves notes, for claim old, that card i does not hold its epoch any more. */
inline leaves(l) {
	k = l*SLOTS;
	do
	:: k < (l+1)*SLOTS ->
		if
		:: kind[k] == FRAME && fEpoch[k] == epoch[l] -> fLeft[k] = 1
		:: else
		fi;
		k++
	:: else -> break
	od;
	if
	:: epoch[l] != 0 && epoch[1-l] == epoch[l] -> left[1-l] = 1
	:: else
	fi;
	k = 0
}

/* begin: End.begin: what was in flight returns, and both directions count from 0. */
inline begin(b) {
	left[b] = 0;
	if
	:: b == 0 -> sndNext = 0; sndUna = 0; marked = 255
	:: else -> received = 0
	fi
}

/* hear: handshake.hear, then what End.greeted makes of it. s is the slot of the greeting. */
inline hear(c, f) {
	theirs[c] = fNonce[f];
	if
	:: epoch[c] != 0 && nonce[c] != began[c] && !attempts[c] && fIncarnation[f] == incarnation[c] && fEpoch[f] != epoch[c] ->
		if
		:: Epoch(c, began[c], fNonce[f]) == epoch[c] -> nonce[c] = began[c]; used[c] = 1; spent[c] = 1
		:: else
		fi
	:: else
	fi;
	e = Epoch(c, nonce[c], fNonce[f]);
	same = spent[c] && e == epoch[c];
	if
	:: nonce[c] != 0 && fEcho[f] == nonce[c] ->
		used[c] = 1;
		if
		:: (epoch[c] != 0 && fEpoch[f] == epoch[c] && fIncarnation[f] == incarnation[c]) || same -> proven = 1
		:: else -> if :: !spent[c] ->
#ifdef DEAD
			assert(fIncarnation[f] == self[1-c]);
#endif
			leaves(c);
			epoch[c] = e; began[c] = nonce[c]; incarnation[c] = fIncarnation[f]; spent[c] = 1;
			proven = 1; anew = 1
			:: else
			fi
		fi
	:: else
	fi;
	if
	:: proven -> attempts[c] = 0
#ifdef REDRAW /* handshake.go: "h.draw(random) // for the answer" left out */
	:: else
#else
	:: !proven && (spent[c] || used[c]) && !same -> draw(c)
	:: else
#endif
	fi;
	answer = !proven || fEpoch[f] != epoch[c] || fAsks[f];
	if
	:: anew -> begin(c)
	:: else
	fi;
	if
	:: proven -> established[c] = 1; greets[c] = 0 /* End.meet */
	:: else
	fi;
	if
	:: answer -> sendGreeting(c) /* End.greetBack */
	:: else
	fi;
	e = 0; same = 0; proven = 0; answer = 0; anew = 0
}

/* arrive: End.Arrive of a frame that is no greeting */
inline arrive(r, q) {
	if
#ifdef EPOCH /* arrive.go: "&& h.Epoch == p.epoch" left out */
	:: established[r] ->
#else
	:: established[r] && fEpoch[q] == epoch[r] ->
#endif
		assert(!fLeft[q]);                              /* claim old */
		if
		:: r == 1 && ((received>>fSeq[q])&1) == 0 ->    /* End.isNew */
			received = received | (1<<fSeq[q]);
			assert(!(fMarked[q] && delivered));         /* claim once */
			delivered = delivered | fMarked[q]
#ifdef TWICE /* arrive.go: "case !e.isNew(fl, seq, seq-uint32(h.Age)):" left out */
		:: r == 1 && ((received>>fSeq[q])&1) != 0 ->
			assert(!(fMarked[q] && delivered))
#endif
		:: else
		fi
#ifdef STALE /* arrive.go: "e.stale(p, h.GID)" left out */
	:: else
#else
	:: else -> sendGreeting(r)                          /* End.stale, greetBack */
#endif
	fi
}

/* drop takes a frame out of the network. */
inline drop(x) {
	kind[x] = 0; fEpoch[x] = 0; fNonce[x] = 0; fEcho[x] = 0; fIncarnation[x] = 0; fAsks[x] = 0; fMarked[x] = 0; fSeq[x] = 0; fLeft[x] = 0
}

inline arrives(w) {
	if
	:: kind[w] == HELLO -> hear(to(w), w)
	:: else -> arrive(to(w), w)
	fi
}

/* A slot of the network delivers what it holds, or loses it, or delivers it and keeps it. */
active [WIRES] proctype Wire() {
end:
	do
	:: d_step { kind[_pid] != 0 -> arrives(_pid); drop(_pid) }
	:: d_step { kind[_pid] != 0 && dups > 0 -> arrives(_pid); dups-- }
	:: d_step { kind[_pid] != 0 && losses > 0 -> drop(_pid); losses-- }
	od
}

/* sends puts a frame of the present epoch into the network, where vacant left its slot. */
#define ready(i) (kind[(1-(i))*SLOTS+SLOTS-1] == 0)
inline sends(t, number, bears) {
	room = (1-(t))*SLOTS+SLOTS-1;
	kind[room] = FRAME; fEpoch[room] = epoch[t]; fSeq[room] = number; fMarked[room] = bears; fLeft[room] = left[t];
	room = 0
}

/* A card's timers and what its processes want. */
active [2] proctype Card() {
	byte i = _pid - WIRES;
end:
	do
	:: d_step { !established[i] && !greets[i] && wants[i] -> greets[i] = 1; attempt(i); sendGreeting(i) } /* End.greet */
	:: d_step { !established[i] && greets[i] -> sendGreeting(i) }                                         /* End.greetAgain */
#ifdef LIVE
	:: d_step { established[i] && wants[i] && ready(i) -> sends(i, 0, 0) }
#else
	:: d_step { !established[i] && !greets[i] -> sendGreeting(i) }                                        /* End.Introduce */
	:: d_step { established[i] && i == 1 && ready(i) -> sends(i, 0, 0) }
	:: d_step { established[i] && i == 0 && sndNext < SEQS && ready(i) -> sends(i, sndNext, 0); sndNext++ }
	:: d_step { established[i] && i == 0 && sndNext < SEQS && !chosen && ready(i) ->
		chosen = 1; marked = sndNext; sends(i, sndNext, 1); sndNext++ }
	:: d_step { established[i] && i == 0 && sndUna < sndNext && ready(i) -> sends(i, sndUna, marked == sndUna) } /* End.timeout */
	:: d_step { established[i] && i == 0 && sndUna+1 < sndNext && ready(i) -> sends(i, sndUna+1, marked == sndUna+1) }
	:: d_step { established[i] && i == 0 && sndUna < sndNext -> /* an acknowledgment */
		if :: marked == sndUna -> marked = 255 :: else fi; sndUna++ }
#endif
	od
}

/* loses: End.lose and End.abandon */
inline lose(p) {
	established[p] = 0; greets[p] = 0;
	if
	:: p == 0 -> sndUna = sndNext; marked = 255
	:: else
	fi
}

/* restart: the card comes back with another incarnation, and knows nothing. */
inline restart(y) {
	leaves(y);
	taken = 1 | (1<<self[y]) | (1<<incarnation[1-y]);
	k = (1-y)*SLOTS;
	do
	:: k < (2-y)*SLOTS -> taken = taken | (1<<fIncarnation[k]); k++
	:: else -> break
	od;
	n = 1;
	do
	:: n < 15 && (taken>>n)&1 -> n++
	:: else -> break
	od;
	self[y] = n; n = 0; k = 0; taken = 0;
	nonce[y] = 0; theirs[y] = 0; epoch[y] = 0; began[y] = 0; incarnation[y] = 0; used[y] = 0; spent[y] = 0; attempts[y] = 0;
	lose(y); begin(y)
}

/* resynchronise: End.resynchronise and handshake.forget; greet follows from wants. */
inline resynchronise(z) {
	leaves(z); established[z] = 0; epoch[z] = 0
}

/* fate is what may happen to card i at any time. */
#define fate(i) \
	:: d_step { restarts > 0 -> restart(i); restarts-- } \
	:: d_step { established[i] && loses > 0 -> lose(i); loses-- } \
	:: d_step { established[i] && resyncs > 0 -> resynchronise(i); resyncs-- }

active proctype Fate() {
end:
	do
	fate(0)
	fate(1)
	od
}

init {
	wants[0] = 1;
	if
	:: wants[1] = 1
	:: wants[1] = 0
	fi
}

#define agreed (epoch[0] != 0 && epoch[0] == epoch[1] && incarnation[0] == self[1] && incarnation[1] == self[0] && established[0])

#ifdef LIVE
ltl agreement { <>[] agreed }
#endif
