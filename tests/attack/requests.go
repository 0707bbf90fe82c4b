package attack

// This file makes requests at a daemon's socket, without end and over many connections at once.
// They aim at the turns of requests, and at the objects that the daemon makes for each.
// `make share` measures how long others' requests take beside them.

import (
	"encoding/binary"
	"slices"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const (
	// requesters is the number of connections that ask at once. tableRequesters is that number in
	// attacks whose contexts have large tables.
	requesters      = 32
	tableRequesters = 8
	// requestedSegment is the length of a segment in bytes.
	requestedSegment = 2 << 20
	// requesterSlots is the length of a context's queues. requesterNodes is how many nodes attach
	// by turns, as an ended context may not be free yet.
	requesterSlots = 16
	requesterNodes = 64
)

// manyWindows is the largest number of windows that a context can have.
var manyWindows = funi.RemoteSizes{KeySlots: funi.MaxRemote, Areas: 1, Notifications: 1}

// Requests lists the attacks on requests. They make their groups themselves.
func Requests() []Attack {
	return []Attack{
		requests("requests_attach", "attaching and ending, over 32 connections", requesters, (*requester).attachAndEnd),
		requests("requests_segment", "segments of 2 MiB, made and ended, over 32 connections", requesters,
			(*requester).makeSegment),
		requests("requests_image", "images of contexts with 65,536 windows, brought and ended, over 8 connections",
			tableRequesters, (*requester).bringImage),
		requests("requests_windows", "contexts with 65,536 windows, made and ended, over 8 connections",
			tableRequesters, (*requester).makeWindows),
	}
}

// requests returns an attack with the given number of connections.
func requests(name, does string, connections int, round func(*requester) error) Attack {
	return Attack{
		Name: name, Does: does,
		begin: func(p *player) error {
			for range connections {
				r := &requester{p: p, token: attach.NewToken()}
				k, err := client.Dial(p.c.Socket)
				if err != nil {
					return err
				}
				if r.gid, err = k.Job(attach.JobRequest{Token: r.token,
					Cards: slices.Repeat([]uint16{uint16(p.c.Host)}, requesterNodes)}); err != nil {
					return err
				}
				go func() {
					for {
						// what is refused is asked for again, and has cost the daemon something
						_ = round(r)
						p.requested <- struct{}{}
					}
				}()
			}
			return nil
		},
		round: func(p *player) int {
			<-p.requested
			return 1
		},
	}
}

// requester is a goroutine that asks over one connection after the other.
type requester struct {
	p     *player
	gid   uint16
	token attach.Token
	node  uint16
	k     *client.Connection // kept between two rounds; nil: none
}

// ask sends a request on a connection, and closes the descriptors that come with the answer.
func (r *requester) ask(k *client.Connection, message []byte, kind attach.Kind) error {
	answer, fds, err := k.Ask(message, attach.AttachDescriptors)
	attach.CloseDescriptors(fds)
	if err == nil {
		_, err = attach.DecodeBody(answer, kind|attach.AnswerBit)
	}
	return err
}

// request returns the request to attach the next node's context.
func (r *requester) request(windows funi.RemoteSizes) attach.AttachRequest {
	r.node = (r.node + 1) % requesterNodes
	return attach.AttachRequest{GID: r.gid, Node: r.node, Slots: requesterSlots, Remote: windows, Token: r.token}
}

func (r *requester) attachAndEnd() error { return r.attachWith(funi.RemoteSizes{}) }

func (r *requester) makeWindows() error { return r.attachWith(manyWindows) }

// attachWith attaches a context and ends it.
func (r *requester) attachWith(windows funi.RemoteSizes) error {
	k, err := client.Dial(r.p.c.Socket)
	if err != nil {
		return err
	}
	defer k.Close()
	return r.ask(k, r.request(windows).Encode(), attach.KindAttach)
}

// makeSegment makes a segment and ends it. The context stays for the next round.
func (r *requester) makeSegment() (err error) {
	if r.k == nil {
		if r.k, err = client.Dial(r.p.c.Socket); err != nil {
			return err
		}
		if err = r.ask(r.k, r.request(funi.RemoteSizes{}).Encode(), attach.KindAttach); err != nil {
			r.k.Close()
			r.k = nil
			return err
		}
	}
	if err = r.ask(r.k, attach.SegmentRequest{Base: segmentBase, Bytes: requestedSegment, Rights: funi.Source}.Encode(),
		attach.KindSegment); err != nil {
		return err
	}
	return r.ask(r.k, attach.UnsegmentRequest{Base: segmentBase}.Encode(), attach.KindUnsegment)
}

// bringImage has the daemon take in a context as if it moved here. The context was never anywhere.
func (r *requester) bringImage() error {
	k, err := client.Dial(r.p.c.Socket)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := r.ask(k, r.request(manyWindows).EncodeArrive(), attach.KindArrive); err != nil {
		return err
	}
	if err := r.ask(k, attach.SegmentRequest{Base: segmentBase, Bytes: funi.PageSize, Rights: funi.Keyed}.Encode(),
		attach.KindSegment); err != nil {
		return err
	}
	image := r.image()
	for at := 0; at < len(image); at += attach.MaxImagePart {
		part := image[at:min(at+attach.MaxImagePart, len(image))]
		if err := r.ask(k, attach.ImageRequest{Total: uint64(len(image)), Offset: uint64(at), Part: part}.Encode(),
			attach.KindImage); err != nil {
			return err
		}
	}
	return nil
}

// image composes the image of a context with all windows open (engine, image.go).
func (r *requester) image() []byte {
	le := binary.LittleEndian
	words := func(b []byte, all ...uint32) []byte {
		for _, w := range all {
			b = le.AppendUint32(b, w)
		}
		return b
	}
	b := words(nil, 0x4d55464e, 2|uint32(r.gid)<<16, uint32(r.node)|1<<16) // with a segment
	b = words(b, segmentBase, uint32(funi.Keyed), funi.PageSize, 0)
	b = words(b, 1, 0) // lineage
	b = words(b, uint32(manyWindows.KeySlots), uint32(manyWindows.Areas), uint32(manyWindows.Notifications),
		uint32(manyWindows.KeySlots))
	for i := range uint32(manyWindows.KeySlots) {
		b = words(b, i, i, 1, segmentBase, 16, 0, 0, uint32(funi.RightWrite)<<16, 0, 0)
	}
	b = words(b, 0, 0, 0)               // areas, and the ring
	b = append(b, make([]byte, 4*8)...) // what was completed and notified
	return words(b, 0, 0, 0, 0)         // generations, chains, and what was drained
}
