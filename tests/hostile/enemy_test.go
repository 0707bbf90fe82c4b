package hostile

// This file is the enemy: a process of another user, in a group of its own. It does to the card
// whatever it can, in an order that a seed draws, until it kills itself. The seed draws that
// instant, too. The enemy never frees anything. What a daemon should have refused and did not, it
// says in a line that starts with "bad".

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// enemyConfig configures the role.
type enemyConfig struct {
	Sockets []string
	GID     uint16 // its group, a node on each card
	Token   string
	Others  []uint16 // groups of others, each with nodes 0 and 1
	Bytes   int64    // quota
	Seed    uint64
	Life    time.Duration // at most
}

// enemy is the role.
type enemy struct {
	c     enemyConfig
	r     *rand.Rand
	token attach.Token
	k     *client.Connection // with a context; nil: none
	host  int                // its
	words []uint32           // the context's memory
	bells []uint32
	made  int64 // bytes of segments of this context
	kept  []*client.Connection
	did   map[string]int
}

func newEnemy(c enemyConfig) *enemy {
	return &enemy{c: c, r: rand.New(rand.NewPCG(c.Seed, c.Seed)), did: map[string]int{}}
}

// bad says what should not have been possible.
func bad(format string, args ...any) { fmt.Println("bad", fmt.Sprintf(format, args...)) }

// end kills this process.
func end() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) }

// live is the role, until it kills itself.
func (e *enemy) live() (err error) {
	if e.token, err = attach.ParseToken(e.c.Token); err != nil {
		return err
	}
	// One thread: what it may compute is the kernel's to divide, and not what is tested.
	runtime.GOMAXPROCS(1)
	if e.c.Life > 0 {
		life := time.Duration(e.r.Int64N(int64(e.c.Life)))
		time.AfterFunc(life, end)
	}
	tricks := e.tricks()
	for n := 1; ; n++ {
		if e.k == nil || e.r.IntN(40) == 0 {
			e.settleIn()
		}
		if t := tricks[e.r.IntN(len(tricks))]; t.possible == nil || t.possible() {
			t.do()
			e.did[t.name]++
		}
		if n%32 == 0 {
			e.tell()
		}
		if len(e.kept) > 64 {
			e.leave()
		}
		if e.r.IntN(300) == 0 && e.c.Life > 0 {
			end()
		}
	}
}

// leave lets go of the connections that have piled up, as the limit on descriptors would
// end the attack otherwise.
func (e *enemy) leave() {
	for _, k := range e.kept {
		k.Close()
	}
	e.kept, e.k = nil, nil
}

// tell says what has been done since it was last said.
func (e *enemy) tell() {
	line := "did"
	for name, n := range e.did {
		line += fmt.Sprintf(" %s %d", name, n)
	}
	fmt.Println(line)
	clear(e.did)
}

// trick is something that it can do.
type trick struct {
	name     string
	possible func() bool // nil: always
	do       func()
}

// tricks lists them; those on memory come three times, as the others take longer.
func (e *enemy) tricks() (all []trick) {
	attached := func() bool { return e.k != nil }
	open := func() bool { return e.k != nil && len(e.k.FDs) >= attach.AttachDescriptors }
	for range 3 {
		all = append(all, trick{"scribble", attached, e.scribble}, trick{"registers", attached, e.registers},
			trick{"modes", attached, e.modes},
			trick{"indices", attached, e.indices}, trick{"forge", attached, e.forge}, trick{"race", attached, e.race},
			trick{"words", attached, e.otherWords}, trick{"ring", attached, e.ring}, trick{"flood", attached, e.flood})
	}
	return append(all, trick{"events", open, e.events}, trick{"files", open, e.files}, trick{"fork", open, e.fork},
		trick{"half-open", nil, e.halfOpen}, trick{"fuzz", nil, e.fuzz}, trick{"fuzz", nil, e.fuzz},
		trick{"too-long", nil, e.tooLong},
		trick{"descriptors", nil, e.passDescriptors}, trick{"others", nil, e.others}, trick{"others", nil, e.others},
		trick{"administer", nil, e.administer}, trick{"segments", attached, e.segments}, trick{"deaf", nil, e.deaf})
}

// settleIn attaches, to its group or to one that it makes. The last context stays.
func (e *enemy) settleIn() {
	e.k, e.host = nil, e.r.IntN(len(e.c.Sockets))
	gid, node, token := e.c.GID, uint16(e.host), e.token
	if e.r.IntN(3) == 0 {
		if k := e.dial(); k != nil {
			token = attach.NewToken()
			cards := make([]uint16, 1+e.r.IntN(4))
			for i := range cards {
				cards[i] = uint16(e.r.IntN(2))
			}
			node = uint16(e.r.IntN(len(cards)))
			cards[node] = uint16(e.host)
			if got, err := k.Job(attach.JobRequest{Token: token, Cards: cards}); err == nil {
				gid = got
			}
		}
	}
	k := e.dial()
	if k == nil || k.Attach(attach.AttachRequest{GID: gid, Node: node, Slots: 2 << e.r.IntN(11), Remote: e.remote(),
		Token: token}) != nil {
		return
	}
	e.made = 0
	for i := range e.r.IntN(3) {
		_, _ = k.Segment(attach.SegmentRequest{Base: segmentBase + uint32(i)<<20, Bytes: segmentBytes,
			Rights: []funi.Rights{funi.Source | funi.Destination, funi.Source | funi.Keyed}[e.r.IntN(2)]})
	}
	if e.r.IntN(4) > 0 && k.Start() != nil {
		return
	}
	e.k = k
	e.did["attach"]++
	e.words, e.bells = wordsOf(k.Maps[0]), wordsOf(k.Maps[1])
}

// remote is how much remote memory it asks for, if any.
func (e *enemy) remote() (s funi.RemoteSizes) {
	if e.r.IntN(2) == 0 {
		s = funi.RemoteSizes{KeySlots: 1 << e.r.IntN(12), Areas: 1 << e.r.IntN(8), Notifications: 1 << e.r.IntN(8)}
	}
	return s
}

// dial connects to the daemon of the host, and keeps the connection. It returns nil if
// the daemon does not want it.
func (e *enemy) dial() *client.Connection {
	k, err := client.Dial(e.c.Sockets[e.host])
	if err != nil {
		return nil
	}
	e.kept = append(e.kept, k)
	return k
}

func wordsOf(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// value draws a value that somebody might have forgotten.
func (e *enemy) value() uint32 {
	switch e.r.IntN(6) {
	case 0:
		return uint32(e.r.IntN(5)) - 2
	case 1:
		return 1<<e.r.IntN(32) - uint32(e.r.IntN(3)) + 1
	case 2:
		return 1 << e.r.IntN(32)
	case 3:
		return []uint32{0x7fffffff, 0x80000000, 0xfffffff0, 0xffff, 0x10000, segmentBase, 0xffffff80,
			0x494e5546}[e.r.IntN(8)]
	case 4:
		return uint32(e.r.IntN(1 << 12))
	}
	return e.r.Uint32()
}

// fork starts another process that has the context too, and goes on in both; it outlives
// this one, and with it the connection does.
func (e *enemy) fork() {
	attr := &os.ProcAttr{Env: []string{roleEnv + "=offspring"}}
	for _, fd := range []int{e.k.FDs[attach.MemoryDescriptor], e.k.FDs[attach.DoorbellsDescriptor],
		e.k.FDs[attach.CardDescriptor], e.k.Socket} {
		copied, err := unix.Dup(fd)
		if err != nil {
			return
		}
		defer unix.Close(copied)
		for len(attr.Files) < 3 {
			attr.Files = append(attr.Files, nil)
		}
		attr.Files = append(attr.Files, os.NewFile(uintptr(copied), "shared"))
	}
	attr.Sys = &syscall.SysProcAttr{}
	if p, err := os.StartProcess("/proc/self/exe", []string{"role"}, attr); err == nil {
		_ = p.Release()
	}
}

// offspring is the role of such a process: a second of noise.
func offspring() error {
	runtime.GOMAXPROCS(1)
	time.AfterFunc(time.Second, end)
	e := newEnemy(enemyConfig{Seed: uint64(os.Getpid())})
	var st unix.Stat_t
	if err := unix.Fstat(3, &st); err != nil {
		return err
	}
	context, err := unix.Mmap(3, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	bells, err := unix.Mmap(4, 0, funi.DoorbellsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m, err := funi.SharedRemoteMemory(context, bells, funi.RemoteSizes{})
	if err != nil {
		return err
	}
	e.k = &client.Connection{Memory: m, FDs: []int{3, 4, 5}}
	e.words, e.bells = wordsOf(context), wordsOf(bells)
	for {
		[]func(){e.scribble, e.registers, e.modes, e.indices, e.forge, e.race, e.otherWords, e.ring}[e.r.IntN(8)]()
		e.k.Wake()
		_, _ = unix.Write(6, make([]byte, e.r.IntN(100)))
	}
}

// compute is a role that does nothing but compute, for comparison.
func compute() {
	runtime.GOMAXPROCS(1)
	for n := uint32(1); n != 0; n = n*5 | 1 {
	}
}
