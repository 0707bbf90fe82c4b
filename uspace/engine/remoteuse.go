package engine

// This file shows the owner of the card the use of a context's remote memory (keyslot.go, area.go).

import (
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// RemoteBytes returns the most bytes that a card may come to hold for a context's remote memory,
// besides the memory that it shares with the process. They are for key slots, areas, the ring's
// entries, lines for answers, records of operations and their completions, messages of many packets
// that the context receives, and chains with their lines. Most of that is allocated when it is
// first used. For zero sizes RemoteBytes returns 0.
func RemoteBytes(s funi.RemoteSizes) int64 {
	if s == (funi.RemoteSizes{}) {
		return 0
	}
	records := int64(min(s.Notifications, funi.MaxRequests))
	return int64(s.KeySlots)*int64(unsafe.Sizeof(keySlot{})) + int64(s.Areas)*int64(unsafe.Sizeof(area{})) +
		int64(s.Notifications)*4 +
		int64(unsafe.Sizeof(answers{})) + records*int64(unsafe.Sizeof(request{})+2+unsafe.Sizeof(completion{})) +
		int64(unsafe.Sizeof(receiver{})+funi.MaxReservations*unsafe.Sizeof(reservation{})) +
		int64(unsafe.Sizeof(chains{})) + funi.MaxChains*int64(unsafe.Sizeof(chain{})) +
		int64(unsafe.Sizeof(paths{})) + askedPaths*int64(unsafe.Sizeof(pathAsked{})) +
		int64(pathsOf(s.KeySlots))*(int64(unsafe.Sizeof(pathEnd{}))+
			pathLines*int64(unsafe.Sizeof(line{})+unsafe.Sizeof(pathAck{})))
}

// RemoteUse counts the remote memory that a context has asked for, the part of it that is open, and
// the packets of others that were refused.
type RemoteUse struct {
	KeySlots      int `json:"key_slots"` // in the context's table
	KeySlotsOpen  int `json:"key_slots_open"`
	Areas         int `json:"areas"`
	AreasOpen     int `json:"areas_open"`
	Notifications int `json:"notifications"` // entries of the ring
	// entries that areas hold as credit, or that closed areas had and the process has not read
	Credit       int    `json:"credit"`
	Unread       int    `json:"unread"`
	Notified     uint64 `json:"notified"`   // since the context began, or was reset
	Operations   uint64 `json:"operations"` // of others, carried out on windows
	RequestsOpen int    `json:"requests_open"`
	Completed    uint64 `json:"completed"` // the process's own operations
	Failed       uint64 `json:"failed"`    // completed operations that failed
	Chains       int    `json:"chains"`    // chains that the context is a member of
	Paths        int    `json:"paths"`     // ends of paths
	Messages     uint64 `json:"-"`         // entries of messages from others (receive.go)
	Receiving    int    `json:"-"`         // messages of many packets that are on their way
	// units of the receive ring that are in use, or buffers that are posted
	ReceiveRoom int            `json:"-"`
	Refused     RemoteRefusals `json:"refused"`
}

// RemoteRefusals counts packets of remote writes and operations by the reason for rejecting them.
// Packets rejected as Busy, Absent, NoCredit or Guessing come again, and count each time.
type RemoteRefusals struct {
	KeySlot  uint64 `json:"key_slot"`  // arctic.ReasonKeySlot
	Range    uint64 `json:"range"`     // arctic.ReasonRange
	Area     uint64 `json:"area"`      // arctic.ReasonArea
	NoBuffer uint64 `json:"no_buffer"` // arctic.ReasonNoBuffer
	Form     uint64 `json:"form"`      // arctic.ReasonRemoteForm
	Rights   uint64 `json:"rights"`    // arctic.ReasonRights
	Locked   uint64 `json:"locked"`    // arctic.ReasonLocked
	Operand  uint64 `json:"operand"`   // arctic.ReasonAlignment, ReasonOperation
	// arctic.ReasonBusy: no line for an answer, or the word changed at each try
	Busy     uint64 `json:"busy"`
	Chain    uint64 `json:"chain"`     // arctic.ReasonChain
	Withheld uint64 `json:"withheld"`  // arctic.ReasonWithheld
	Absent   uint64 `json:"absent"`    // arctic.ReasonAbsent: the window is not present
	NoCredit uint64 `json:"no_credit"` // the area has no credit until its process reads
	Guessing uint64 `json:"guessing"`  // the node has brought too many wrong keys
}

// count counts a refusal for good.
func (r *RemoteRefusals) count(reason arctic.Reason) {
	switch reason {
	case arctic.ReasonKeySlot:
		r.KeySlot++
	case arctic.ReasonRange:
		r.Range++
	case arctic.ReasonArea:
		r.Area++
	case arctic.ReasonNoBuffer:
		r.NoBuffer++
	case arctic.ReasonRemoteForm:
		r.Form++
	case arctic.ReasonRights:
		r.Rights++
	case arctic.ReasonLocked:
		r.Locked++
	case arctic.ReasonAlignment, arctic.ReasonOperation:
		r.Operand++
	case arctic.ReasonChain:
		r.Chain++
	case arctic.ReasonWithheld:
		r.Withheld++
	}
}

// Remote returns the context's use of remote memory, or false if it has none.
func (x *Context) Remote() (RemoteUse, bool) {
	r := x.remote
	if r == nil {
		return RemoteUse{}, false
	}
	if !x.away { // else the process's memory is not ours
		r.read(x.iface.NotesTail())
	}
	u := r.use
	u.KeySlots, u.Areas, u.Notifications = len(r.keySlots), len(r.areas), len(r.ring)
	u.Credit, u.Unread = int(r.promised), int(r.head-r.tail)
	if v := r.receiver; v != nil {
		u.Receiving, u.ReceiveRoom = int(v.reserved), int(v.write-v.read)
	}
	return u, true
}

// Add adds another context's numbers.
func (u *RemoteUse) Add(v *RemoteUse) {
	u.KeySlots += v.KeySlots
	u.KeySlotsOpen += v.KeySlotsOpen
	u.Areas += v.Areas
	u.AreasOpen += v.AreasOpen
	u.Notifications += v.Notifications
	u.Credit += v.Credit
	u.Unread += v.Unread
	u.RequestsOpen += v.RequestsOpen
	u.Chains += v.Chains
	u.Receiving += v.Receiving
	u.ReceiveRoom += v.ReceiveRoom
	u.Paths += v.Paths
	u.Messages += v.Messages
	u.Notified += v.Notified
	u.Operations += v.Operations
	u.Completed += v.Completed
	u.Failed += v.Failed
	to := u.Refused.all()
	for i, n := range v.Refused.all() {
		*to[i] += *n
	}
}

// all returns the counters in their order.
func (r *RemoteRefusals) all() []*uint64 {
	return []*uint64{&r.KeySlot, &r.Range, &r.Area, &r.NoBuffer, &r.Form, &r.Rights, &r.Locked, &r.Operand, &r.Busy,
		&r.Chain, &r.Withheld, &r.Absent, &r.NoCredit, &r.Guessing}
}
