package daemon_test

// This file tests rows: many contexts behind one connection (row.go).

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// rowSlots is the number of slots of each queue of a row's ports.
const rowSlots = 4

// crowded gives every user room for thousands of contexts.
func crowded(c *daemon.Config) {
	c.Rules = []config.Rule{{Contexts: 8192, Bytes: 1 << 30}}
}

// openRow attaches a row of the library's.
func openRow(t testing.TB, d *running, gid, first uint16, count int, token attach.Token) *attach.Row {
	t.Helper()
	r, err := attach.OpenRow(attach.Config{Socket: d.socket, GID: gid, Node: first, Slots: rowSlots, Token: token},
		count)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// words waits until as many words as there are ports have come to the ports of a row, one to each,
// and returns them with their senders.
func words(t testing.TB, r *attach.Row) (senders []uint16, got []uint32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	senders, got = make([]uint16, r.Count()), make([]uint32, r.Count())
	came := make([]bool, r.Count())
	var ready []int
	for n := 0; n < r.Count(); {
		var err error
		if ready, err = r.Wait(ctx, ready[:0]); err != nil {
			t.Fatalf("%d of %d ports have got a word: %v", n, r.Count(), err)
		}
		for _, i := range ready {
			p := r.Interface(i)
			for s := p.Receive(funi.Request); s != nil; s = p.Receive(funi.Request) {
				if came[i] {
					t.Fatalf("port %d got a second word", i)
				}
				came[i], senders[i], got[i] = true, s.Source(), s.Payload()[0]
				p.Release(funi.Request)
				n++
			}
		}
	}
	return senders, got
}

// Rule: a row has up to 1,024 contexts, each a node of its own with bells, queues and messages of
// its own (attach.KindRow). They have numbers from funi.NearBells on, and one that attaches alone a
// number below it. Messages between all ports of two rows, and a context, come to the ports that
// they are for, whatever sleeps. The status has one line for a row. Close ends all.
func TestRow(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 2*attach.MaxRow+1)...)
	begin := time.Now()
	x, y := openRow(t, d, gid, 0, attach.MaxRow, token), openRow(t, d, gid, attach.MaxRow, attach.MaxRow, token)
	t.Logf("two rows are attached after %v", time.Since(begin))
	alone := open(t, d, gid, 2*attach.MaxRow, token, false)
	if n := alone.Answer().Context; n >= funi.NearBells {
		t.Errorf("a context of its own has the number %d", n)
	}
	seen := map[uint16]bool{}
	for _, r := range []*attach.Row{x, y} {
		for _, n := range r.Answer().Contexts {
			if n < funi.NearBells || seen[n] {
				t.Fatalf("a context of a row has the number %d", n)
			}
			seen[n] = true
		}
	}
	for round := range uint32(3) {
		for i := range x.Count() {
			put(x.Interface(i), uint16(attach.MaxRow+i), round<<16|uint32(i))
		}
		senders, got := words(t, y)
		for i := range got {
			if got[i] != round<<16|uint32(i) || int(senders[i]) != i {
				t.Fatalf("port %d got %#x of node %d", i, got[i], senders[i])
			}
			put(y.Interface(i), uint16(i), got[i]+1)
		}
		if _, got = words(t, x); got[7] != round<<16|8 {
			t.Fatalf("port 7 got %#x back", got[7])
		}
	}
	put(x.Interface(1023), 2*attach.MaxRow, 5)
	for alone.Interface().Receive(funi.Request) == nil {
		alone.Drive()
	}
	s := d.status(t)
	rows := 0
	for _, c := range s.Contexts {
		if c.Contexts == attach.MaxRow && c.Slots == rowSlots && c.Bytes > attach.MaxRow*8192-1 {
			rows++
		}
	}
	if len(s.Contexts) != 3 || rows != 2 || s.Jobs[0].Attached != 2*attach.MaxRow+1 {
		t.Errorf("the status is %+v", s)
	}
	begin = time.Now()
	for _, r := range []*attach.Row{x, y} {
		if err := r.Close(patience); err != nil {
			t.Error(err)
		}
	}
	t.Logf("two rows ended in %v", time.Since(begin))
	if s := d.status(t); len(s.Contexts) != 1 || s.Jobs[0].Attached != 1 {
		t.Errorf("afterwards the status is %+v", s)
	}
	if err := alone.Close(0); err != nil {
		t.Error(err)
	}
}

// Rule: a row is refused as a whole, with the reason, and costs nothing then: when it is too long,
// a node of it does not exist, is on another card or taken, or the quota does not cover all of it.
func TestRowRefused(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{Contexts: 40, Bytes: 1 << 20}} })
	cards := make([]uint16, 40)
	cards[30] = 1
	gid, token, _ := two(t, []*running{d}, cards...)
	holder := open1(t, d, gid, 20, token)
	try := func(first uint16, count int, slots uint32) error {
		k := dial(t, d.socket)
		defer k.Close()
		answer, fds := k.ask(attach.RowRequest{AttachRequest: attach.AttachRequest{GID: gid, Node: first, Slots: slots,
			Token: token}, Count: count}.Encode(), attach.RowDescriptors)
		attach.CloseDescriptors(fds)
		_, err := attach.DecodeRowAnswer(answer)
		return err
	}
	wantError(t, try(0, 21, 4), attach.ErrTaken)
	wantError(t, try(21, 10, 4), attach.ErrNode)
	wantError(t, try(31, 10, 4), attach.ErrNode)
	wantError(t, try(0, 3, 5), attach.ErrSlots)
	wantError(t, try(0, 0, 4), attach.ErrMalformed)
	wantError(t, try(0, attach.MaxRow+1, 4), attach.ErrMalformed)
	wantError(t, try(0, 20, 64), attach.ErrQuota)
	wantError(t, try(0, 20, 4), nil)
	until(t, "the row has ended", func() bool { return len(d.status(t).Contexts) == 1 })
	if s := d.status(t); s.Bytes != s.Contexts[0].Bytes {
		t.Errorf("%d bytes are counted for one context", s.Bytes)
	}
	holder.Close()
	_, err := attach.OpenRow(attach.Config{Socket: d.socket, GID: gid, Token: token}, attach.MaxRow+1)
	wantError(t, err, attach.ErrCount)
}

// open1 attaches a context.
func open1(t testing.TB, d *running, gid, node uint16, token attach.Token) *client {
	t.Helper()
	k := dial(t, d.socket)
	if err := k.attach(attach.AttachRequest{GID: gid, Node: node, Slots: rowSlots, Token: token}); err != nil {
		t.Fatal(err)
	}
	return k
}

// Rule: a row does not move. The administrator's command and the process's request are refused in
// one line that says so, and the row goes on (errRow).
func TestRowStays(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, 0, 0, 1, 0)
	r := openRow(t, d, gid, 0, 2, token)
	defer r.Close(0)
	for _, n := range r.Answer().Contexts {
		err := d.admin(t, fmt.Sprintf(`{"do": "context-move", "context": %d, "socket": "/nowhere"}`, n),
			&report.Moved{})
		wantError(t, err, attach.ErrCommand)
		if err == nil || !strings.Contains(err.Error(), "a row stays on its card") {
			t.Errorf("it is refused: %v", err)
		}
	}
	k := dial(t, d.socket)
	answer, fds := k.ask(attach.RowRequest{AttachRequest: attach.AttachRequest{GID: gid, Node: 3, Slots: rowSlots,
		Token: token}, Count: 1}.Encode(), attach.RowDescriptors)
	if _, err := attach.DecodeRowAnswer(answer); err != nil {
		t.Fatal(err)
	}
	attach.CloseDescriptors(fds)
	whither, err := attach.EncodeBody(attach.KindWhither, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for kind, request := range map[attach.Kind][]byte{attach.KindWhither: whither,
		attach.KindLeave: attach.LeaveRequest{Card: 1, Patience: time.Second}.Encode()} {
		answer, _ := k.ask(request, 0)
		_, err := attach.DecodeBody(answer, kind|attach.AnswerBit)
		if wantError(t, err, attach.ErrCommand); err == nil || !strings.Contains(err.Error(), "a row stays on its card") {
			t.Errorf("a request of kind %d is refused: %v", kind, err)
		}
	}
	put(r.Interface(0), 1, 3)
	put(r.Interface(1), 0, 4)
	if _, got := words(t, r); got[0] != 4 || got[1] != 3 {
		t.Errorf("the ports got %v", got)
	}
}

// Rule: when a job ends, or the daemon, all ports of a row are told so, with the job's reason
// (attach.Row.Err, funi.Page.Why).
func TestRowEnds(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, owners := two(t, []*running{d}, make([]uint16, 100)...)
	r := openRow(t, d, gid, 0, 100, token)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	owners[0].Close()
	if _, err := r.Wait(ctx, nil); err == nil {
		_, err = r.Wait(ctx, nil)
		wantError(t, err, funi.ErrDetached)
	}
	for i := range r.Count() {
		if !r.Interface(i).Gone() {
			t.Fatalf("port %d does not know", i)
		}
	}
	wantError(t, r.Close(0), funi.ErrDetached)
	until(t, "all is given back", func() bool { s := d.status(t); return len(s.Contexts) == 0 && s.Bytes == 0 })
}

// Rule: a segment of a row is a segment of each of its ports, at the same address, and counts once
// (attach.Row.Segment). It ends for all.
func TestRowSegment(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 40)...)
	r := openRow(t, d, gid, 0, 40, token)
	defer r.Close(0)
	before := d.status(t).Bytes
	m, err := r.Segment(0x10000, 1<<16, funi.Source|funi.Destination)
	if err != nil {
		t.Fatal(err)
	}
	if n := d.status(t).Bytes - before; n != 1<<16 {
		t.Errorf("the segment counts for %d bytes", n)
	}
	for i := range 20 { // port i sends a part of it to port 39-i
		m[64*i] = byte(i + 1)
		s := r.Interface(i).Reserve(funi.Request)
		s.SetTransfer(uint16(39-i), 1, funi.Transfer{Source: 0x10000 + uint32(64*i),
			Destination: 0x18000 + uint32(64*i), Words: 16})
		r.Interface(i).Commit(funi.Request)
	}
	until(t, "all parts have come", func() bool {
		for i := range 20 {
			if m[0x8000+64*i] != byte(i+1) {
				return false
			}
		}
		return true
	})
	for err = attach.ErrBusy; err != nil; {
		if err = r.Unregister(0x10000); err != nil {
			wantError(t, err, attach.ErrBusy)
		}
	}
	if n := d.status(t).Bytes; n != before {
		t.Errorf("%d bytes are counted afterwards, not %d", n, before)
	}
	wantError(t, r.Unregister(0x10000), attach.ErrNoSegment)
}

// Rule: memory of a row that fails, a hole for example, and a panic of the card in a command for
// one of its contexts, end that row and nobody else's contexts (fault.go).
func TestRowThatFails(t *testing.T) {
	for name, fail := range map[string]func(*running, uint16, *attach.Row) error{
		"memory": func(d *running, gid uint16, r *attach.Row) error {
			err := d.Fault(gid, 0, false, false)
			put(r.Interface(63), 5, 1)
			return err
		},
		"panic": func(d *running, gid uint16, _ *attach.Row) error {
			if d.PanicOnCard(gid, 17) == nil {
				return errors.New("the asker hears of no error")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			daemons := []*running{b.start(0, crowded), b.start(1, nil)}
			gid, token, _ := two(t, daemons[:1], make([]uint16, 64)...)
			_, victims := group(t, daemons, 0, 1)
			r := openRow(t, daemons[0], gid, 0, 64, token)
			defer r.Close(0)
			if err := fail(daemons[0], gid, r); err != nil {
				t.Fatal(err)
			}
			until(t, "the row ends", func() bool { return len(daemons[0].status(t).Contexts) == 1 })
			pingPong(t, victims, 20)
			if s := daemons[0].status(t); s.MemoryFaults+s.Panics != 1 {
				t.Errorf("%d memory faults and %d panics", s.MemoryFaults, s.Panics)
			}
			again := openRow(t, daemons[0], gid, 0, 64, token) // its nodes are free
			put(again.Interface(0), 1, 7)
			for again.Interface(1).Receive(funi.Request) == nil {
				again.Drive()
			}
			if err := again.Close(0); err != nil {
				t.Error(err)
			}
		})
	}
}

// Rule (attach/row.go, issue 36): a quiet context of a row takes at most 16 KiB of the daemon,
// beside the memory that it shares. In this process are daemon and client.
func TestRowFootprint(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 2*attach.MaxRow)...)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	first := openRow(t, d, gid, 0, attach.MaxRow, token) // tables that stay are made
	defer first.Close(0)
	before := heap()
	r := openRow(t, d, gid, attach.MaxRow, attach.MaxRow, token)
	defer r.Close(0)
	each := (heap() - before) / attach.MaxRow
	t.Logf("%d bytes for a context", each)
	if each > 16<<10 {
		t.Errorf("a quiet context takes %d bytes", each)
	}
}

// Rule (memory.go): when a row has ended, a process that keeps its files holds the first register
// page of the row and nothing else that is not counted. So rows that are opened and ended again and
// again cost no more than contexts do.
func TestRowThatIsKept(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 100)...)
	k := dial(t, d.socket)
	answer, fds := k.ask(attach.RowRequest{AttachRequest: attach.AttachRequest{GID: gid, Slots: rowSlots, Token: token},
		Count: 100}.Encode(), attach.RowDescriptors)
	defer attach.CloseDescriptors(fds)
	a, err := attach.DecodeRowAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	m, err := attach.MapMemory(fds[attach.MemoryDescriptor], a.Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer attach.Unmap(m)
	held := func(fd int) int64 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if n := held(fds[attach.MemoryDescriptor]); n != 100*8192 {
		t.Errorf("the row's memory has %d bytes", n)
	}
	k.Conn.Close()
	until(t, "the row ends", func() bool { s := d.status(t); return len(s.Contexts) == 0 && s.Bytes == 0 })
	if n := held(fds[attach.MemoryDescriptor]); n != funi.PageSize {
		t.Errorf("the row's memory still has %d bytes", n)
	}
	if n := held(fds[attach.FarDescriptor]); n > funi.FarDoorbellsSize {
		t.Errorf("the far doorbells have %d bytes", n)
	}
	if !(*funi.Page)(unsafe.Pointer(unsafe.SliceData(m))).Gone() {
		t.Error("the first page does not say that the row has ended")
	}
}

// Rule (share.go): where the card has room for one group at a time, rows of two groups take turns
// as contexts do, each as a whole.
func TestRowsTakeTurns(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) {
		crowded(c)
		c.Profile = few(t, 1)
	})
	var rows []*attach.Row
	for range 2 {
		gid, token, _ := two(t, []*running{d}, make([]uint16, 40)...)
		r := openRow(t, d, gid, 0, 40, token)
		defer r.Close(0)
		rows = append(rows, r)
	}
	for round := range uint32(3) {
		for _, r := range rows {
			for i := range r.Count() {
				put(r.Interface(i), uint16((i+1)%r.Count()), round)
			}
		}
		for _, r := range rows {
			if senders, got := words(t, r); got[0] != round || senders[0] != 39 {
				t.Fatalf("port 0 got %d of node %d", got[0], senders[0])
			}
		}
	}
	on := 0
	for _, x := range d.status(t).Contexts {
		if x.Active {
			on++
		}
	}
	if on > 1 {
		t.Errorf("%d rows are on the card", on)
	}
}

// Rule (bells.go): rows of a user ring at that user's doorbells, near and far, and nobody else's.
func TestBellsOfRows(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 9)...)
	bells := func(uid int, first uint16) (inodes [2]uint64) {
		k := dialIn(t, d.socket, uid, someGroup)
		answer, fds := k.ask(attach.RowRequest{AttachRequest: attach.AttachRequest{GID: gid, Node: first,
			Slots: rowSlots, Token: token}, Count: 3}.Encode(), attach.RowDescriptors)
		defer attach.CloseDescriptors(fds)
		if _, err := attach.DecodeRowAnswer(answer); err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{attach.DoorbellsDescriptor, attach.FarDescriptor} {
			var st unix.Stat_t
			if err := unix.Fstat(fds[n], &st); err != nil {
				t.Fatal(err)
			}
			inodes[i] = st.Ino
		}
		return inodes
	}
	first, second, others := bells(alice, 0), bells(alice, 3), bells(bob, 6)
	if first != second || first[0] == others[0] || first[1] == others[1] || first[0] == first[1] {
		t.Errorf("the doorbells are %v and %v, another user's %v", first, second, others)
	}
}

// Rule (attach.Row.Arm): while a row is armed, its descriptor is readable when the card has
// something for any of its ports, when Interrupt is called and when the daemon has ended. A row
// with news cannot be armed.
func TestRowInAnEventLoop(t *testing.T) {
	b := newBed(t)
	d := b.start(0, crowded)
	gid, token, _ := two(t, []*running{d}, make([]uint16, 101)...)
	r, alone := openRow(t, d, gid, 0, 100, token), open1(t, d, gid, 100, token)
	defer r.Close(0)
	fd, err := r.Fd()
	if err != nil {
		t.Fatal(err)
	}
	readable := func(what string) {
		t.Helper()
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		until(t, what, func() bool { n, _ := unix.Poll(p, 1000); return n > 0 })
		r.Disarm()
	}
	arm := func() {
		t.Helper()
		until(t, "it is armed", func() bool {
			if r.Arm() {
				return true
			}
			_, err := r.Wait(context.Background(), nil) // that of the start, the first time
			return err != nil
		})
	}
	for port := range uint16(100) {
		arm()
		alone.send(port, uint32(port))
		readable("there is something for a port")
		ready, err := r.Wait(t.Context(), nil)
		if err != nil || !slices.Contains(ready, int(port)) {
			t.Fatalf("after a message for port %d there is something for %v: %v", port, ready, err)
		}
		if s := r.Interface(int(port)).Receive(funi.Request); s == nil || s.Payload()[0] != uint32(port) {
			t.Fatalf("port %d has %v", port, s)
		}
		r.Interface(int(port)).Release(funi.Request)
	}
	arm()
	go r.Interrupt()
	readable("it is interrupted")
	arm()
	d.stop(t)
	readable("the daemon has ended")
	wantError(t, r.Err(), funi.ErrDetached)
}
