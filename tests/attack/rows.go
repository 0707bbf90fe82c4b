package attack

// This file attacks with rows, the contexts of 1,024 nodes behind one connection: all of them
// trigger at once, and rows are attached, written over and given up again and again. Their user
// needs a rule with so many contexts.

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const (
	// RowContexts is how many contexts a user of these attacks needs on each host.
	RowContexts = attach.MaxRow
	rowSlots    = 4
	// rowStores is how many words of a row's memory are written over.
	rowStores = 20_000
)

// Rows lists the attacks with rows. They make their groups themselves.
func Rows() []Attack {
	return []Attack{
		{Name: "rows_trigger", Does: "triggers of all 1,024 contexts of a row, one over the other",
			Row: true, begin: (*player).openRow, round: (*player).triggerRow},
		{Name: "rows_made", Does: "rows of 1,024 contexts, attached, written over and given up",
			Row: true, begin: (*player).makeRowJob, round: (*player).makeRow},
	}
}

// rowJob is a job whose nodes are all on the process's card.
type rowJob struct {
	gid   uint16
	token attach.Token
	row   *attach.Row // nil: none is kept
	next  int         // a counter of rounds
}

func (p *player) makeRowJob() error {
	k, err := client.Dial(p.c.Socket)
	if err != nil {
		return err
	}
	p.jobs = append(p.jobs, k)
	p.rows = &rowJob{token: attach.NewToken()}
	p.rows.gid, err = k.Job(attach.JobRequest{Token: p.rows.token,
		Cards: slices.Repeat([]uint16{uint16(p.c.Host)}, RowContexts)})
	return err
}

func (p *player) openRow() (err error) {
	if err := p.makeRowJob(); err != nil {
		return err
	}
	p.rows.row, err = attach.OpenRow(attach.Config{Socket: p.c.Socket, GID: p.rows.gid, Token: p.rows.token,
		Slots: rowSlots, Triggers: true}, RowContexts)
	return err
}

// triggerRow fills the send queue of each port with messages for the next port, and stores
// triggers: half of them the next in order, the others whatever comes.
func (p *player) triggerRow() (stored int) {
	r := p.rows.row
	for i := range r.Count() {
		port := r.Interface(i)
		for port.Receive(funi.Request) != nil {
			port.Release(funi.Request)
		}
		for s := port.Reserve(funi.Request); s != nil; s = port.Reserve(funi.Request) {
			s.SetHeader(funi.NewHeader(uint16((i+1)%r.Count()), 0, 1))
			port.Commit(funi.Request)
		}
		if !port.Issue() {
			port.Trigger(funi.TriggerCommand(rand.IntN(16)), rand.Uint32()>>rand.IntN(32))
		}
		stored++
	}
	return stored
}

// makeRow attaches a row, does to its memory what it can, and gives it up: before the answer comes,
// with a request to detach whose answer it does not read, or at once.
func (p *player) makeRow() int {
	j := p.rows
	j.next++
	k, err := client.Dial(p.c.Socket)
	if err != nil {
		return 0
	}
	defer k.Close()
	request := attach.RowRequest{AttachRequest: attach.AttachRequest{GID: j.gid, Slots: rowSlots, Token: j.token},
		Count: RowContexts}.Encode()
	if j.next%4 == 0 {
		_ = attach.Send(k.Conn, request)
		return 1
	}
	answer, fds, err := k.Ask(request, attach.RowDescriptors)
	k.FDs = fds // Close closes them
	if err != nil {
		return 0
	}
	a, err := attach.DecodeRowAnswer(answer)
	if err != nil || len(fds) != attach.RowDescriptors {
		return 1 // the one before may not have ended; it costs the daemon something all the same
	}
	for fd, size := range map[int]int{attach.MemoryDescriptor: int(a.Memory),
		attach.DoorbellsDescriptor: funi.DoorbellsSize, attach.FarDescriptor: funi.FarDoorbellsSize} {
		m, err := unix.Mmap(fds[fd], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return 0
		}
		k.Maps = append(k.Maps, m)
		overwrite(m, fd != attach.MemoryDescriptor)
		_ = unix.Ftruncate(fds[fd], 0)
		_ = unix.Fallocate(fds[fd], unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(size))
	}
	if j.next%4 == 1 {
		_ = attach.Send(k.Conn, attach.DetachRequest{Linger: 10 * time.Millisecond}.Encode())
	}
	return 1
}

// overwrite rings all bells of a file of doorbells, or writes anything into a row's memory, half of
// it into register pages.
func overwrite(b []byte, bells bool) {
	words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
	if bells {
		for i := range words {
			atomic.StoreUint32(&words[i], 1<<32-1)
		}
		return
	}
	const pageWords = funi.PageSize / 4
	for n := range rowStores {
		i := rand.IntN(len(words))
		if n%2 == 0 { // a context with so few slots takes two pages
			i = i/(2*pageWords)*2*pageWords + rand.IntN(pageWords)
		}
		atomic.StoreUint32(&words[i], rand.Uint32()>>rand.IntN(32))
	}
}
