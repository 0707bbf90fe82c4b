package engine

// This file is what the owner of the card sees of a context's remote memory (keyslot.go, area.go).

import (
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// RemoteBytes returns how many bytes a card may come to hold for the remote memory of a context
// besides what it shares with the process. The bytes are for key slots, areas, the ring's entries,
// lines for answers, records of operations and their completions, and chains with their lines. Most
// of it is allocated when it is first used. Zero sizes have none.
func RemoteBytes(s funi.RemoteSizes) int64 {
	if s == (funi.RemoteSizes{}) {
		return 0
	}
	records := int64(min(s.Notifications, funi.MaxRequests))
	return int64(s.KeySlots)*int64(unsafe.Sizeof(keySlot{})) + int64(s.Areas)*int64(unsafe.Sizeof(area{})) +
		int64(s.Notifications)*4 +
		int64(unsafe.Sizeof(answers{})) + records*int64(unsafe.Sizeof(request{})+2+unsafe.Sizeof(completion{})) +
		int64(unsafe.Sizeof(chains{})) + funi.MaxChains*int64(unsafe.Sizeof(chain{}))
}

// RemoteUse is how much remote memory a context has asked for, what of it is open, and what was
// refused of others.
type RemoteUse struct {
	KeySlots      int `json:"key_slots"` // that there is room for
	KeySlotsOpen  int `json:"key_slots_open"`
	Areas         int `json:"areas"`
	AreasOpen     int `json:"areas_open"`
	Notifications int `json:"notifications"` // the ring's
	// of them, which areas have, or closed ones had and the process has not read
	Credit       int            `json:"credit"`
	Unread       int            `json:"unread"`
	Notified     uint64         `json:"notified"`   // since the context began, or was reset
	Operations   uint64         `json:"operations"` // of others, carried out on windows
	RequestsOpen int            `json:"requests_open"`
	Completed    uint64         `json:"completed"` // of the process's own operations
	Failed       uint64         `json:"failed"`    // of them
	Chains       int            `json:"chains"`    // that it is a member of
	Refused      RemoteRefusals `json:"refused"`
}

// RemoteRefusals counts packets of remote writes, by why they were rejected: those of the last
// three come again, and count each time.
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
	NoCredit uint64 `json:"no_credit"` // the area has none, and its process has to read
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

// Remote returns the context's remote memory; false: it has none.
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
	return u, true
}

// Add adds the numbers of another context that are in use or asked for.
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
}
