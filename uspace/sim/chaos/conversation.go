package chaos

// This file has both ends of the sessions of every protocol of package rats.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/funet/funet/uspace/rats"
)

// Kinds of sessions.
const (
	tagSession = iota
	datagramSession
	simpleSession
	groupSession
	readSession
	streamSession
	requestSession
	sessionKinds
)

var sessionNames = [sessionKinds]string{"tagged writes", "datagrams", "simple datagrams", "group", "reads", "stream",
	"initial requests"}

const (
	datagramBytes = 700
	simpleBytes   = 2000
	tagBytes      = partBytes / 16
	tagShift      = 5
)

// session is a conversation of two members by one protocol.
type session struct {
	number           uint32
	kind             int
	from, to, third  *member
	fromLife, toLife uint16
	thirdLife        uint16
	total            int // messages, or bytes of a stream
	sent, got        int
	seen             uint32
	seed             rats.Seed
	have             bool // the seed
	refused          bool // for want of room
	senderFirst      bool
	asked            bool // with the sender's seed
	done             bool // the client has done everything
	closed           bool // and closed
	shut             bool // the server has closed its end
	fromErr, toErr   error
	thirdErr         error
	part             int            // of the server's target
	own              closer         // the client's instance
	receiver         *rats.Receiver // the server's, or simple
	simple           *rats.Simple
	out              [3][]byte // what client, server and third send from
	handle           [3]rats.Handle
	parts            []rats.Handle // of a group, that the client has sent
	// a message of the simple protocol, or a read, has no answer yet
	flying               bool
	offset, length, beat int
	reply                rats.Seed
	first                rats.Seed // of the server, whose key is closed when that has closed
}

func (s *session) String() string {
	return fmt.Sprintf("session %d (%v) of members %d and %d", s.number, sessionNames[s.kind], s.from.number, s.to.number)
}

// alive reports whether both members live as they did when the session began.
func (s *session) alive() bool {
	return s.from.process != nil && s.from.attached == s.fromLife && s.to.process != nil && s.to.attached == s.toLife &&
		(s.third == nil || s.third.process != nil && s.third.attached == s.thirdLife)
}

// idle reports whether the client has not begun, or has no inquiry under way.
func (s *session) idle() bool {
	return s.own == nil && (s.kind != groupSession || s.sent == 0)
}

// missing returns what a session lacks that should be complete, or "".
func (s *session) missing() string {
	switch {
	case !s.alive() || s.refused || s.fromErr != nil || s.toErr != nil || s.thirdErr != nil:
		return ""
	case !s.have && s.kind != requestSession:
		return "it was not opened"
	case s.got != s.total:
		return "something did not arrive"
	case !s.done:
		return "the sender does not know that all has arrived"
	}
	return ""
}

// open opens sessions that other members want, and hands out seeds once their keys are open.
func (k *keyed) open() {
	if len(k.opening) > 0 && k.Settled() {
		for _, s := range k.opening {
			s.have = true
			if s.from.process != nil {
				s.from.process.Wake()
			}
		}
		k.opening = k.opening[:0]
	}
	for _, s := range k.wanted {
		if s.toLife != k.m.attached {
			continue
		}
		if len(k.serves) >= sessionsAtOnce || !k.openOne(s) {
			s.refused = true
			continue
		}
		s.first = s.seed
		k.opening = append(k.opening, s)
		if s.kind == simpleSession || s.kind == groupSession || s.kind == streamSession {
			k.serves = append(k.serves, s)
		}
	}
	k.wanted = k.wanted[:0]
}

// openOne makes what the session needs at its server. It returns false if there is no room.
func (k *keyed) openOne(s *session) (ok bool) {
	var err error
	switch s.kind {
	case tagSession:
		for i := range k.taken {
			if !k.taken[i] && k.port != nil {
				if s.seed, err = k.target.TaggedSeed(); err == nil {
					k.taken[i], s.part = true, i
				}
				return err == nil
			}
		}
		return false
	case datagramSession:
		if k.port == nil {
			return false
		}
		s.seed, err = k.port.Seed()
	case readSession:
		s.seed, err = k.reads.Seed()
	case simpleSession, groupSession:
		if s.simple, err = k.newSimple(); err == nil {
			s.seed = s.simple.Seed()
			k.ends = append(k.ends, s.simple)
		}
	case streamSession:
		size := 1 << (10 + s.number%4)
		if s.senderFirst {
			s.receiver, err = k.ReceiveFrom(s.seed, size, 4*size)
		} else if s.receiver, err = k.NewReceiver(size, 4*size); err == nil {
			s.seed = s.receiver.Seed()
		}
		if err == nil {
			k.ends = append(k.ends, s.receiver)
		}
	}
	return err == nil
}

// receive takes what has arrived for the servers of several sessions.
func (k *keyed) receive() {
	if k.port == nil {
		return
	}
	for g, ok := k.target.GetTag(); ok; g, ok = k.target.GetTag() {
		s, i := k.of(g.Tag>>tagShift, tagSession), int(g.Tag&(1<<tagShift-1))
		if s == nil || !k.arrive(s, i) {
			continue
		}
		at := s.part*partBytes + i*tagBytes
		if b := k.target.Memory()[at : at+rats.MaxTagged]; !holds(b, s.number, i) {
			k.damaged(s, i)
		}
		if s.got == s.total {
			k.taken[s.part] = false
		}
	}
	for d, ok := k.port.Recv(); ok; d, ok = k.port.Recv() {
		if len(d.Bytes) < 8 {
			k.stray(len(d.Bytes))
			continue
		}
		number, i := binary.LittleEndian.Uint32(d.Bytes), int(binary.LittleEndian.Uint32(d.Bytes[4:]))
		if s := k.of(number, datagramSession); s != nil && k.arrive(s, i) &&
			(!holds(d.Bytes[8:], number, i) || len(d.Bytes) != s.size(i, datagramBytes)) {
			k.damaged(s, i)
		}
		k.held = append(k.held, d)
	}
	for keep := k.m.random.IntN(4); len(k.held) > 0 && (len(k.held) > keep || k.stage != talking); {
		i := k.m.random.IntN(len(k.held))
		k.port.Release(k.held[i])
		k.held = append(k.held[:i], k.held[i+1:]...)
	}
	if k.server == nil {
		return
	}
	for q, ok := k.server.Recv(); ok; q, ok = k.server.Recv() {
		if len(q.Words) != 2 {
			k.stray(len(q.Words))
			continue
		}
		r := k.m.run
		if number := q.Words[0]; number == 0 || int(number) > len(r.sessions) || r.sessions[number-1].to != k.m ||
			r.sessions[number-1].kind != requestSession {
			k.stray(int(number))
			// requests are for whoever serves there, an earlier life or this
		} else if s := r.sessions[number-1]; s.toLife == k.m.attached {
			if s.seen>>q.Words[1]&1 != 0 {
				k.m.run.duplicated("request %d of session %d came again", q.Words[1], s.number)
			}
			s.seen |= 1 << q.Words[1]
		}
		k.pending = append(k.pending, q)
	}
	for len(k.pending) > 0 && k.server.SendReply(&k.pending[0], k.pending[0].Words[1], ^k.pending[0].Words[0]) {
		k.pending = k.pending[1:]
	}
}

func (s *session) size(i, most int) int { return 8 + int(s.number*7919+uint32(i)*977)%(most-7) }

// of returns the session with a number, if it is of that kind and has its server here.
func (k *keyed) of(number uint32, kind int) *session {
	r := k.m.run
	if number == 0 || int(number) > len(r.sessions) {
		k.stray(int(number))
		return nil
	}
	s := r.sessions[number-1]
	if s.kind != kind || s.to != k.m || s.toLife != k.m.attached {
		r.misdelivered("something of session %d for member %d has come to member %d", number, s.to.number, k.m.number)
		return nil
	}
	return s
}

// arrive notes that message i of the session has come. It returns false if it should not have.
func (k *keyed) arrive(s *session, i int) bool {
	r := k.m.run
	r.oracle.progress = r.oracle.now()
	switch {
	case i >= s.sent:
		r.damaged("message %d of %v came, and was not sent", i, s)
	case s.seen>>i&1 != 0:
		r.duplicated("message %d of %v came again", i, s)
	default:
		s.seen |= 1 << i
		s.got++
		return true
	}
	return false
}

func (k *keyed) damaged(s *session, i int) {
	k.m.run.damaged("message %d of %v is not what was sent", i, s)
}

func (k *keyed) stray(n int) {
	k.m.run.damaged("member %d got something by package rats that nobody sent: %d", k.m.number, n)
}

// client advances the end of a session that began it.
func (k *keyed) client(s *session) (over bool) {
	if s.refused || k.stage == closing {
		s.closed = true
		k.free(s, 0)
		return s.out[0] == nil
	}
	if s.senderFirst && s.own == nil && s.fromErr == nil {
		sender, err := begun(k, s, k.NewSender)
		if err != nil {
			s.refused = true
			return true
		}
		s.seed = sender.Seed()
	}
	if s.senderFirst && s.fromErr == nil && !s.asked && k.Settled() {
		s.asked = true
		if s.to.keyed == nil || s.to.process == nil {
			s.own.Close()
			s.refused = true
			return true
		}
		s.to.keyed.wanted = append(s.to.keyed.wanted, s)
		s.to.process.Wake()
	}
	if !s.have && s.kind != requestSession {
		if s.senderFirst && !s.alive() {
			s.own.Close()
			return true
		}
		return !s.alive()
	}
	err := [...]func(*session) error{tagSession: k.writeTags, datagramSession: k.sendDatagrams, simpleSession: k.pingPong,
		groupSession: k.sendParts, readSession: k.read, streamSession: k.write, requestSession: k.request}[s.kind](s)
	if errors.Is(err, rats.ErrFull) {
		err = nil
		// its queue has become too short for what it would have to open
		s.refused = k.stage == asking && s.idle()
	}
	k.judge(s, &s.fromErr, err)
	if s.fromErr == nil && !s.done && !s.refused {
		return false
	}
	return k.closeClient(s)
}

func (k *keyed) closeClient(s *session) bool {
	if !s.closed && s.to.process != nil {
		s.to.process.Wake() // it closes too
	}
	s.closed = true
	if s.own != nil {
		s.own.Close()
	}
	lasts := false // until what it has sent has arrived
	switch e := s.own.(type) {
	case *rats.Writer, *rats.Client:
		k.judge(s, &s.fromErr, e.Err())
		lasts = !e.Closed()
	}
	k.free(s, 0)
	return s.out[0] == nil && !lasts
}

// begun returns the client's instance, which open makes first if there is none.
func begun[E closer](k *keyed, s *session, open func() (E, error)) (own E, err error) {
	if s.own == nil {
		if own, err = open(); err != nil {
			return own, err
		}
		s.own = own
		k.ends = append(k.ends, own)
	}
	return s.own.(E), nil
}

func (k *keyed) newSimple() (*rats.Simple, error) {
	b, err := k.Alloc(simpleBytes)
	if err != nil {
		return nil, err
	}
	s, err := k.NewSimple(b)
	if err != nil {
		k.Free(b)
	}
	return s, err
}

// free frees the memory that a role of the session has sent from, when the card has taken it.
func (k *keyed) free(s *session, role int) {
	if s.out[role] == nil {
		return
	}
	if s.handle[role] != 0 {
		if st, _, err := k.Status(s.handle[role]); err == nil && st < rats.Sent {
			return
		}
	}
	k.Free(s.out[role])
	s.out[role] = nil
}

func (k *keyed) writeTags(s *session) error {
	w, err := begun(k, s, func() (*rats.Writer, error) { return k.WriteTo(s.seed) })
	if err != nil {
		return err
	}
	for ; s.sent < s.total; s.sent++ {
		var b [rats.MaxTagged]byte
		fill(b[:], s.number, s.sent)
		if err := w.WriteTag(uint32(s.part*partBytes+s.sent*tagBytes), b[:],
			s.number<<tagShift|uint32(s.sent)); err != nil {
			return err
		}
	}
	s.done = true
	return nil
}

func (k *keyed) sendDatagrams(s *session) error {
	c, err := begun(k, s, func() (*rats.Client, error) { return k.SendDatagrams(s.seed) })
	if err != nil {
		return err
	}
	for ; s.sent < s.total; s.sent++ {
		b := make([]byte, s.size(s.sent, datagramBytes))
		binary.LittleEndian.PutUint32(b, s.number)
		binary.LittleEndian.PutUint32(b[4:], uint32(s.sent))
		fill(b[8:], s.number, s.sent)
		if ok, err := c.Send(b); err != nil || !ok {
			return err
		}
	}
	s.done = true
	return nil
}

// say sends message i of a session of simple datagrams.
func (k *keyed) say(s *session, role int, to rats.Seed, i, most int, with rats.Metadata) (err error) {
	if s.out[role] == nil {
		if s.out[role], err = k.Alloc(simpleBytes); err != nil {
			return err
		}
	}
	if s.handle[role] != 0 {
		if st, _, err := k.Status(s.handle[role]); err == nil && st < rats.Sent {
			return rats.ErrFull
		}
	}
	b := s.out[role][:s.size(2*i+role, most)]
	fill(b, s.number, 2*i+role)
	with.Own = []uint32{s.number, uint32(i)}
	s.handle[role], err = to.Send(k.Manager, b, with)
	return err
}

func (k *keyed) came(s *session, role int, at *rats.Simple) (g rats.Message, ok bool, err error) {
	if ok, err = at.Recv(&g); !ok {
		return g, false, errors.Join(err, k.failed(s, s.handle[role]))
	}
	k.m.run.oracle.progress = k.m.run.oracle.now()
	return g, true, nil
}

// failed returns why a message did not arrive, or nil if it still may.
func (k *keyed) failed(s *session, h rats.Handle) error {
	if h == 0 {
		return nil
	}
	if st, why, err := k.Status(h); err == nil && st == rats.Failed {
		return &rats.Failure{Node: s.to.node, Reason: why}
	}
	return nil
}

func (k *keyed) pingPong(s *session) error {
	own, err := begun(k, s, k.newSimple)
	if err != nil {
		return err
	}
	for {
		if !s.flying {
			if s.sent == s.total {
				s.done = true
				return nil
			}
			s.sent++
			if err := k.say(s, 0, s.seed, s.sent-1, simpleBytes, own.MetadataForSelf()); err != nil {
				s.sent--
				return err
			}
			s.flying = true
		}
		g, ok, err := k.came(s, 0, own)
		if !ok {
			return err
		}
		i := s.sent - 1
		if g.Words != 2 || g.Own[0] != s.number || int(g.Own[1]) != i || g.Length != s.size(2*i+1, simpleBytes) ||
			!holds(own.Memory()[:g.Length], s.number, 2*i+1) || !g.HasReply {
			k.damaged(s, i)
		}
		s.flying, s.seed = false, g.Reply
	}
}

// groupPart is the size of a part. The client sends the first and the last part of a group's
// memory, and the helper the middle.
const groupPart = 600

func (k *keyed) sendParts(s *session) (err error) {
	if s.total = 1; s.sent == 1 {
		s.done = s.got == 1
		for _, h := range s.parts {
			if err := k.failed(s, h); err != nil {
				return err
			}
		}
		return nil
	}
	if s.out[0] == nil {
		if s.out[0], err = k.Alloc(simpleBytes); err != nil {
			return err
		}
		fill(s.out[0], s.number, 0)
	}
	var list []rats.Seed
	rest := s.seed
	for range 2 {
		p, err := rest.Split(groupPart)
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	list = append(list, rest)
	if k.Room() < len(list) {
		return rats.ErrFull
	}
	for i, p := range list {
		if i == 1 && s.third != nil {
			continue
		}
		h, err := p.Send(k.Manager, s.out[0][p.Offset:p.Offset+p.Size], rats.Metadata{Own: []uint32{s.number, 0}})
		if err != nil {
			return err
		}
		s.handle[0], s.parts = h, append(s.parts, h)
	}
	s.sent = 1
	if s.third != nil && s.third.keyed != nil && s.alive() {
		s.seed = list[1]
		s.third.keyed.helps = append(s.third.keyed.helps, s)
		s.third.process.Wake()
	}
	return nil
}

// help sends the parts of groups that other members have left to this one.
func (k *keyed) help() {
	k.helps = slices.DeleteFunc(k.helps, func(s *session) bool {
		if s.thirdLife != k.m.attached || k.stage == closing {
			k.free(s, 2)
			return s.out[2] == nil
		}
		if s.out[2] == nil && s.handle[2] == 0 {
			b, err := k.Alloc(groupPart)
			if err != nil {
				return false
			}
			whole := make([]byte, simpleBytes)
			fill(whole, s.number, 0)
			copy(b, whole[groupPart:])
			if s.handle[2], err = s.seed.Send(k.Manager, b, rats.Metadata{Own: []uint32{s.number, 0}}); err != nil {
				k.Free(b)
				return false
			}
			s.out[2] = b
		}
		k.judge(s, &s.thirdErr, k.failed(s, s.handle[2]))
		if s.got == 0 && s.thirdErr == nil && s.alive() {
			return false
		}
		k.free(s, 2)
		return s.out[2] == nil
	})
}

func (k *keyed) read(s *session) error {
	reader, err := begun(k, s, func() (*rats.Reader, error) { return k.ReadFrom(s.seed, readBytes/2) })
	if err != nil {
		return err
	}
	for {
		if s.flying {
			b, ok, err := reader.Ready()
			beyond := s.offset+s.length > readBytes
			if beyond && errors.Is(err, rats.ErrRange) {
				ok, err = true, nil
			} else if beyond && ok {
				k.damaged(s, s.got)
			}
			if !ok {
				return err
			}
			want := make([]byte, readBytes)
			fill(want, uint32(s.to.number)<<16|uint32(s.toLife), 0)
			if !beyond && string(b) != string(want[s.offset:s.offset+s.length]) {
				k.damaged(s, s.got)
			}
			s.flying = false
			s.got++
			k.m.run.oracle.progress = k.m.run.oracle.now()
		}
		if s.got == s.total {
			s.done = true
			return nil
		}
		s.offset, s.length = k.m.random.IntN(readBytes), k.m.random.IntN(readBytes/2)
		if err := reader.AsyncRemoteRead(uint32(s.offset), s.length); err != nil {
			return err
		}
		s.flying = true
	}
}

func (k *keyed) write(s *session) error {
	sender, err := begun(k, s, func() (*rats.Sender, error) { return k.SendTo(s.seed) })
	if err != nil {
		return err
	}
	for s.sent < s.total {
		b := make([]byte, min(s.total-s.sent, 1+k.m.random.IntN(3000)))
		for j := range b {
			b[j] = streamByte(s.number, s.sent+j)
		}
		n, err := sender.WriteBytes(b)
		if s.sent += n; err != nil || n < len(b) {
			return err
		}
	}
	sender.CloseWrite()
	s.done = sender.Done()
	return sender.Err()
}

func streamByte(number uint32, place int) byte { return byte(int(number) + place*7>>2) }

func (k *keyed) request(s *session) error {
	for {
		inquiry, err := begun(k, s, func() (*rats.Inquiry, error) {
			return k.Ask(s.to.node, s.to.serverKey(), s.number, uint32(s.got))
		})
		if err != nil {
			return err
		}
		w, ok, at, err := inquiry.RecvReply(k.p.Now())
		if at != 0 {
			k.due = min(k.due, at)
		}
		if !ok {
			return err
		}
		if len(w) != 2 || w[0] != uint32(s.got) || w[1] != ^s.number {
			k.damaged(s, s.got)
		}
		k.m.run.oracle.progress = k.m.run.oracle.now()
		s.got++
		inquiry.Close()
		if s.own = nil; s.got == s.total {
			s.done = true
			return nil
		}
	}
}

// serve advances the end of a session that serves it alone.
func (k *keyed) serve(s *session) (over bool) {
	if k.stage == closing {
		k.free(s, 1)
		return s.out[1] == nil
	}
	var err error
	switch {
	case s.toErr != nil || s.shut: // what it has sent is still in its memory
	case s.kind == streamSession:
		err = k.readStream(s)
	case s.kind == groupSession:
		var g rats.Message
		var ok bool
		if g, ok, err = k.came(s, 1, s.simple); ok {
			if s.got++; g.Own[0] != s.number || !holds(s.simple.Memory(), s.number, 0) {
				k.damaged(s, 0)
			}
			if s.from.process != nil {
				s.from.process.Wake()
			}
		}
	default:
		err = k.answer(s)
	}
	if errors.Is(err, rats.ErrFull) {
		err = nil
	}
	k.judge(s, &s.toErr, err)
	if s.toErr == nil && !s.closed && s.alive() {
		return false
	}
	if s.shut = true; s.simple != nil {
		s.simple.Close()
	} else {
		s.receiver.Close()
	}
	k.free(s, 1)
	return s.out[1] == nil
}

// tryClosed writes with some keys that their owners have closed.
func (k *keyed) tryClosed() {
	for _, s := range k.m.run.sessions {
		if len(k.stale) == staleWrites || k.Room() == 0 {
			return
		}
		if s.from != k.m || !s.alive() || s.simple == nil || !s.simple.Closed() || !s.to.keyed.Settled() {
			continue
		}
		h, err := k.Write(s.first.Ticket, 0, []byte{0xff})
		if err != nil {
			return
		}
		k.stale = append(k.stale, h)
	}
}

// answer takes messages of a session of simple datagrams, and sends the replies.
func (k *keyed) answer(s *session) error {
	if s.beat == 0 {
		g, ok, err := k.came(s, 1, s.simple)
		if !ok {
			return err
		}
		i := int(g.Own[1])
		if g.Words != 2 || g.Own[0] != s.number || !k.arrive(s, i) || g.Length != s.size(2*i, simpleBytes) ||
			!holds(s.simple.Memory()[:g.Length], s.number, 2*i) || !g.HasReply {
			k.damaged(s, i)
		}
		s.beat, s.reply = i+1, g.Reply
	}
	if err := k.say(s, 1, s.reply, s.beat-1, simpleBytes, s.simple.MetadataForSelf()); err != nil {
		return err
	}
	s.beat = 0
	return nil
}

func (k *keyed) readStream(s *session) error {
	for {
		p, err := s.receiver.ReadBytes()
		if err == io.EOF {
			if s.got != s.total {
				k.damaged(s, s.got)
			}
			return s.receiver.Err() // that the sender was told may have come back
		}
		if err != nil || len(p.Bytes) == 0 {
			return err
		}
		for j, b := range p.Bytes {
			if b != streamByte(s.number, s.got+j) || s.got+j >= s.sent {
				k.damaged(s, s.got+j)
				break
			}
		}
		s.got += len(p.Bytes)
		k.m.run.oracle.progress = k.m.run.oracle.now()
		s.receiver.Release(p)
	}
}
