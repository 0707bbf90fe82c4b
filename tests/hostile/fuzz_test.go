package hostile

// This file fuzzes the daemon's side of the protocol, against a daemon in this process.

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// fuzzToken is the token of the group that messages can join.
var fuzzToken = attach.Token{1, 2, 3, 4}

// fuzzedGroup is the connection whose job it is.
var fuzzedGroup *client.Connection

// fuzzed is the daemon of this process: one for all inputs, as making a lab takes longer
// than thousands of them. It ends with the process.
var fuzzed = sync.OnceValues(func() (socket string, err error) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(folder, "fuzz")
	if err != nil {
		return "", err
	}
	socket = filepath.Join(dir, "funid.sock")
	var d *daemon.Daemon
	err = l.Do(0, func() (err error) {
		d, err = daemon.Open(daemon.Config{File: config.File{Socket: socket, Peers: l.Peers(0),
			Attach: xdp.AttachGeneric, CPU: -1,
			Rules: []config.Rule{{Connections: 32, Contexts: 8, Jobs: 8, Bytes: 16 << 20}}}})
		return err
	})
	if err != nil {
		return "", err
	}
	ready := make(chan struct{})
	go func() {
		if err := d.Run(context.Background(), func() { close(ready) }); err != nil {
			panic(err)
		}
	}()
	<-ready
	if fuzzedGroup, err = client.Dial(socket); err == nil {
		_, err = fuzzedGroup.Job(attach.JobRequest{GID: acrossGID, Token: fuzzToken, Cards: []uint16{0, 1, 0, 0}})
	}
	return socket, err
})

// FuzzMessages: whatever messages come on a connection, the daemon gives each at most one answer,
// which is well formed. The input has each message behind its length. The daemon is never at a loss
// (ErrInternal). Afterwards nothing of the connection is left. Commands of administrators are left
// out: this process is root.
func FuzzMessages(f *testing.F) {
	messages := func(list ...[]byte) (all []byte) {
		for _, m := range list {
			all = append(binary.LittleEndian.AppendUint16(all, uint16(len(m))), m...)
		}
		return all
	}
	join := attach.AttachRequest{GID: acrossGID, Node: 2, Slots: 16, Token: fuzzToken}.Encode()
	segment := attach.SegmentRequest{Base: 1 << 16, Bytes: 1 << 12, Rights: funi.Source}.Encode()
	job, _ := attach.JobRequest{Token: fuzzToken, Cards: []uint16{0, 1}}.Encode()
	status, _ := attach.EncodeBody(attach.KindStatus, nil)
	info, _ := attach.EncodeBody(attach.KindInfo, nil)
	detach := attach.DetachRequest{Linger: time.Millisecond}.Encode()
	f.Add(messages(join, segment, attach.UnsegmentRequest{Base: 1 << 16}.Encode(), detach))
	f.Add(messages(join, segment, segment, status))
	f.Add(messages(job, job, info))
	f.Add(messages(attach.AttachRequest{GID: acrossGID, Node: 1, Slots: 3, Token: fuzzToken}.Encode(), status))
	f.Add(messages(detach, attach.EncodeRefusal(attach.KindJob, attach.ErrBusy)))
	f.Add([]byte{0, 0, 3, 0, 'F', 'U', 'N'})
	f.Fuzz(func(t *testing.T, input []byte) {
		socket, err := fuzzed()
		if err != nil {
			t.Fatal(err)
		}
		k, err := client.Dial(socket)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; len(input) >= 2 && n < 16; n++ {
			size := min(int(binary.LittleEndian.Uint16(input)), len(input)-2)
			message := input[2 : 2+size]
			input = input[2+size:]
			if len(message) >= 8 {
				if k := attach.Kind(binary.LittleEndian.Uint16(message[6:])); k == attach.KindAdmin ||
					k == attach.KindCapture || k == attach.KindTrace {
					continue
				}
			}
			if !exchange(t, k, message) {
				break
			}
		}
		k.Close()
		nothingLeft(t, socket)
	})
}

// exchange sends a message and checks the answer; it returns false if the connection has
// ended.
func exchange(t *testing.T, k *client.Connection, message []byte) bool {
	if len(message) == detachSize && message[6] == byte(attach.KindDetach) {
		binary.LittleEndian.PutUint32(message[16:], 0) // a test has not that time
	}
	answer, fds, err := k.Ask(message, attach.AttachDescriptors)
	attach.CloseDescriptors(fds)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return false
	case err != nil:
		var e net.Error
		if errors.As(err, &e) && e.Timeout() {
			t.Fatalf("no answer to %#x", message)
		}
		t.Fatal(err)
	}
	h, err := attach.DecodeHeader(answer)
	switch {
	case err != nil || h.Kind&attach.AnswerBit == 0:
		t.Fatalf("%#x is answered by %#x: %v", message, answer, err)
	case h.Status == attach.ErrInternal:
		t.Fatalf("%#x is an internal error: %s", message, answer[attach.HeaderSize:])
	case len(fds) > 0 && h.Status != attach.Done:
		t.Fatalf("%d descriptors with a refusal", len(fds))
	}
	if h.Status != attach.Done {
		var refusal *attach.Refusal
		if _, err := attach.DecodeBody(answer, h.Kind); !errors.As(err, &refusal) {
			t.Fatalf("%#x is refused by %#x: %v", message, answer, err)
		}
	}
	return true
}

// detachSize is the size of a detach request.
const detachSize = 24

// nothingLeft waits until nobody but the group's owner and who asks is known.
func nothingLeft(t *testing.T, socket string) {
	var s report.Status
	for end := time.Now().Add(patience); ; {
		k, err := client.Dial(socket)
		if err != nil {
			t.Fatal(err)
		}
		err = k.Status(&s)
		k.Close()
		if err == nil && len(s.Contexts) == 0 && len(s.Jobs) == 1 && s.Bytes == 0 && s.Connections <= 4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("something is left: %v, %+v", err, s)
		}
	}
}
