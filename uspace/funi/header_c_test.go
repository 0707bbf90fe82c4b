package funi_test

// This file compares funi.h with the Go definitions: every constant, the place of every
// word, every message, and what its functions compose.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/wait"
)

// constants are the header's, as Go has them.
func constants() map[string]uint64 {
	c := map[string]uint64{
		"FUNI_ABI": funi.ABI, "FUNI_PAGE_SIZE": funi.PageSize, "FUNI_DOORBELLS_SIZE": funi.DoorbellsSize,
		"FUNI_MAX_CONTEXTS": funi.MaxContexts, "FUNI_NEAR_BELLS": funi.NearBells, "FUNI_MAX_ISSUE": funi.MaxIssue,
		"FUNI_OPEN_PATH": uint64(funi.OpenPath), "FUNI_CLOSE_PATH": uint64(funi.ClosePath),
		"FUNI_PATH_WORDS": arctic.MaxPathWords, "FUNI_MIN_SLICES": funi.MinSlices, "FUNI_MAX_SLICES": funi.MaxSlices,
		"FUNI_PATH_OPENING": uint64(funi.PathOpening), "FUNI_PATH_OPEN": uint64(funi.PathOpen),
		"FUNI_PATH_ENDED":   uint64(funi.PathEnded),
		"FUNI_RETURN_SLOTS": funi.ReturnSlots, "FUNI_LOST_NODES": funi.LostNodes,
		"FUNI_LOST_COUNT": funi.LostCount,
		"FUNI_LOST_ONE":   funi.LostOne, "FUNI_LOST_SHIFT": funi.LostShift, "FUNI_UNTOLD": 256,
		"FUNI_MIN_SLOTS": funi.MinSlots, "FUNI_MAX_SLOTS": funi.MaxSlots, "FUNI_SLOT_WORDS": funi.SlotWords,
		"FUNI_MAX_PAYLOAD_WORDS": funi.MaxPayloadWords, "FUNI_MAX_TYPE": funi.MaxType,
		"FUNI_MAX_SEGMENTS": funi.MaxSegments,
		"FUNI_PAYLOAD_WORD": funi.PayloadWord, "FUNI_SOURCE_ADDRESS_WORD": funi.SourceAddressWord,
		"FUNI_DESTINATION_ADDRESS_WORD": funi.DestinationAddressWord, "FUNI_ARGUMENT_WORD": funi.ArgumentWord,
		"FUNI_DATA_WORD": funi.DataWord, "FUNI_LENGTH_WORD": funi.LengthWord, "FUNI_SOURCE_WORD": funi.SourceWord,
		"FUNI_MAX_SINGLE_WORDS": arctic.MaxSingleWords, "FUNI_MAX_TRANSFER_WORDS": arctic.MaxTransferWords,
		"FUNI_REQUEST": uint64(funi.Request), "FUNI_REPLY": uint64(funi.Reply),
		"FUNI_SOURCE": uint64(funi.Source), "FUNI_DESTINATION": uint64(funi.Destination),
		"FUNI_KEYED":            uint64(funi.Keyed),
		"FUNI_REMOTE_AREA_WORD": funi.RemoteAreaWord, "FUNI_REMOTE_COOKIE_WORD": funi.RemoteCookieWord,
		"FUNI_REMOTE_KEY_WORD":    funi.RemoteKeyWord,
		"FUNI_REMOTE_OFFSET_WORD": funi.RemoteOffsetWord, "FUNI_REMOTE_SOURCE_WORD": funi.RemoteSourceWord,
		"FUNI_REMOTE_LENGTH_WORD": funi.RemoteLengthWord,
		"FUNI_REMOTE_COUNT_WORD":  funi.RemoteCountWord, "FUNI_REMOTE_DATA_WORD": funi.RemoteDataWord,
		"FUNI_REMOTE_COUNTED": funi.RemoteCounted,
		"FUNI_REMOTE_PUT":     uint64(funi.RemotePut), "FUNI_OPEN_KEY_SLOT": uint64(funi.OpenKeySlot),
		"FUNI_CLOSE_KEY_SLOT": uint64(funi.CloseKeySlot),
		"FUNI_OPEN_AREA":      uint64(funi.OpenArea), "FUNI_CLOSE_AREA": uint64(funi.CloseArea),
		"FUNI_RESET_AREA": uint64(funi.ResetArea),
		"FUNI_MAX_REMOTE": funi.MaxRemote, "FUNI_MAX_NOTIFICATIONS": funi.MaxNotifications,
		"FUNI_MAX_METADATA": arctic.MaxRemoteMetadata, "FUNI_MAX_REMOTE_BYTES": arctic.MaxRemoteBytes,
		"FUNI_OPERATE": uint64(funi.Operate), "FUNI_SUSPEND_WINDOW": uint64(funi.SuspendWindow),
		"FUNI_RESUME_WINDOW": uint64(funi.ResumeWindow),
		"FUNI_SET_CHAIN":     uint64(funi.SetChain), "FUNI_MULTICAST": uint64(funi.Multicast),
		"FUNI_MAX_CHAINS": funi.MaxChains, "FUNI_MAX_NEXT": funi.MaxNext, "FUNI_MAX_NAMED": funi.MaxNamed,
		"FUNI_MAX_MULTICAST_WORDS": arctic.MaxMulticastWords, "FUNI_MAX_MULTICAST_BYTES": arctic.MaxMulticastBytes,
		"FUNI_CHAIN_FIRST":   chainFlags(func(s *funi.Slot) { s.SetChain(&funi.Chain{First: true}, 0) }),
		"FUNI_CHAIN_LEAVES":  chainFlags(func(s *funi.Slot) { s.SetLeaveChain(0, 0) }),
		"FUNI_MULTICAST_PUT": chainFlags(func(s *funi.Slot) { s.SetMulticast(0, &funi.MulticastRequest{Put: true}) }),
		"FUNI_U8":            uint64(arctic.Uint8), "FUNI_U16": uint64(arctic.Uint16),
		"FUNI_U32": uint64(arctic.Uint32), "FUNI_U64": uint64(arctic.Uint64),
		"FUNI_I8": uint64(arctic.Int8), "FUNI_I16": uint64(arctic.Int16), "FUNI_I32": uint64(arctic.Int32),
		"FUNI_I64": uint64(arctic.Int64),
		"FUNI_F32": uint64(arctic.Float32), "FUNI_F64": uint64(arctic.Float64),
		"FUNI_MAY_READ": uint64(funi.RightRead), "FUNI_MAY_WRITE": uint64(funi.RightWrite),
		"FUNI_MAY_OPERATE": uint64(funi.RightAtomic), "FUNI_MAY_NOTIFY": uint64(funi.RightNotify),
		"FUNI_OPEN_ABSENT": windowFlags(funi.Window{Absent: true}),
		"FUNI_NOTE_AREA":   uint64(funi.NoteArea), "FUNI_NOTE_COMPLETION": uint64(funi.NoteCompletion),
		"FUNI_NOTE_WINDOW": uint64(funi.NoteWindow), "FUNI_NOTE_FAULT": uint64(funi.NoteFault),
		"FUNI_NOTE_BARRIER": uint64(funi.NoteBarrier), "FUNI_MAX_BARRIERS": funi.MaxBarriers,
		"FUNI_MAX_MEMBERS":    funi.MaxMembers,
		"FUNI_TRAILER_NOTIFY": trailerFlags(arctic.Trailer{Notify: true}),
		"FUNI_TRAILER_SET":    trailerFlags(arctic.Trailer{Set: true}),
		"FUNI_TRAILER_ADD":    trailerFlags(arctic.Trailer{Add: true}),
		"FUNI_MAX_REQUESTS":   funi.MaxRequests, "FUNI_MAX_ANSWER": funi.MaxAnswer,
		"FUNI_MAX_ADDRESS": arctic.MaxAddress & math.MaxUint32, "FUNI_COMPLETE": uint64(rats.Failed) + 1,
		"FUNI_REMEMBERED": 1024, // rats.Endpoint.Status
		"FUNI_SEED_SIZE":  rats.SeedSize, "FUNI_SEED_TEXT": uint64(len((&rats.Seed{}).String()) + 1),
		"FUNI_SEED_VERSION": uint64(seedBytes(rats.Seed{})[0]),
		"FUNI_PENDING":      uint64(rats.Pending), "FUNI_COPIED": uint64(rats.Copied), "FUNI_SENT": uint64(rats.Sent),
		"FUNI_FAILED":    uint64(rats.Failed),
		"FUNI_REGISTERS": funi.Registers,
		"FUNI_MERR":      funi.MERR, "FUNI_RESET": funi.RESET, "FUNI_CTXM": funi.CTXM, "FUNI_CTXR1": funi.CTXR1,
		"FUNI_CTXR1_PRIME": funi.CTXR1Prime, "FUNI_CTXR2": funi.CTXR2, "FUNI_DRAIN": funi.DRAIN, "FUNI_CRQM": funi.CRQM,
		"FUNI_CRQR": funi.CRQR, "FUNI_CSQM": funi.CSQM, "FUNI_CSQR": funi.CSQR,

		"FUNI_PROTOCOL": attach.Version, "FUNI_MAX_MESSAGE": attach.MaxMessage,
		"FUNI_ANSWER_BIT": uint64(attach.AnswerBit),
		"FUNI_TOKEN_SIZE": attach.TokenSize, "FUNI_ANSWER_SECONDS": uint64(attach.DefaultTimeout / time.Second),
		"FUNI_MAGIC":             uint64(binary.LittleEndian.Uint32(attach.JobAnswer{}.Encode())),
		"FUNI_MEMORY_DESCRIPTOR": attach.MemoryDescriptor, "FUNI_DOORBELLS_DESCRIPTOR": attach.DoorbellsDescriptor,
		"FUNI_CARD_DESCRIPTOR": attach.CardDescriptor, "FUNI_PROCESS_DESCRIPTOR": attach.ProcessDescriptor,
		"FUNI_ATTACH_DESCRIPTORS": attach.AttachDescriptors,

		"FUNI_LOOKS": uint64(wait.C.Looks), "FUNI_AWAKE": uint64(wait.C.Awake),
		"FUNI_NAP":         uint64(wait.C.LongestSleep / int64(time.Millisecond)),
		"FUNI_SOMEONE_RAN": uint64(wait.SomeoneRan), "FUNI_SOMEONE_COMPUTES": uint64(wait.SomeoneComputes),
		"FUNI_SHARING": uint64(wait.Sharing),

		// no operation (remote.go)
		"FUNI_BAD_TYPE": 1<<30 | 511<<21 | 1, "FUNI_BAD_WORDS": 1<<30 | 511<<21 | 2,
		"FUNI_BAD_TRANSFER":  1<<30 | 511<<21 | 3,
		"FUNI_MAP_ANONYMOUS": unix.MAP_ANONYMOUS, "FUNI_OPEN_FOLDER": unix.O_PATH | unix.O_CLOEXEC,

		"sizeof page": funi.PageSize, "sizeof doorbells": uint64(unsafe.Sizeof(funi.Doorbells{})),
		"doorbells.bells": uint64(unsafe.Offsetof(funi.Doorbells{}.Bells)),
	}
	maps.Copy(c, funi.ABIWords)
	for name, list := range map[string][]any{
		"": {funi.QMask, "Q_MASK", funi.RPSQBase, "RPSQ_BASE", funi.RQSQBase, "RQSQ_BASE", funi.RPRQBase, "RPRQ_BASE",
			funi.RQRQBase, "RQRQ_BASE",
			funi.RPSQHead, "RPSQ_HEAD", funi.RPSQTail, "RPSQ_TAIL", funi.RQSQHead, "RQSQ_HEAD",
			funi.RQSQTail, "RQSQ_TAIL",
			funi.RPRQHead, "RPRQ_HEAD", funi.RPRQTail, "RPRQ_TAIL", funi.RQRQHead, "RQRQ_HEAD",
			funi.RQRQTail, "RQRQ_TAIL",
			funi.Control, "CONTROL", funi.GID, "GID", funi.Ticket, "TICKET", attach.Done, "DONE"},
		"TRIGGER_": {funi.TriggerIssue, "ISSUE", funi.TriggerPointers, "POINTERS", funi.TriggerNotesRead, "NOTES_READ",
			funi.TriggerBarrier, "BARRIER",
			funi.TriggerDone, "DONE", funi.TriggerPartial, "PARTIAL", funi.TriggerFull, "FULL",
			funi.TriggerInvalid, "INVALID", funi.TriggerBurst, "BURST", funi.TriggerForbidden, "FORBIDDEN",
			funi.TriggerDisabled, "DISABLED"},
		"REASON_": {arctic.ReasonUnknownKind, "UNKNOWN_KIND", arctic.ReasonNoContext, "NO_CONTEXT",
			arctic.ReasonDestination, "DESTINATION",
			arctic.ReasonTransferForm, "TRANSFER_FORM", arctic.ReasonSourceNode, "SOURCE_NODE", arctic.ReasonReplaced,
			"REPLACED", arctic.ReasonJob, "JOB", arctic.ReasonSilent, "SILENT",
			arctic.ReasonRestarted, "RESTARTED", arctic.ReasonDeparted, "DEPARTED", arctic.ReasonNoRoute, "NO_ROUTE",
			arctic.ReasonSource, "SOURCE", arctic.ReasonTransferLength, "TRANSFER_LENGTH",
			arctic.ReasonQueueSize, "QUEUE_SIZE",
			arctic.ReasonQueueLayout, "QUEUE_LAYOUT", arctic.ReasonGivenUp, "GIVEN_UP", arctic.ReasonResynchronised,
			"RESYNCHRONISED", arctic.ReasonKey, "KEY",
			arctic.ReasonKeySlot, "KEY_SLOT", arctic.ReasonRange, "RANGE", arctic.ReasonArea, "AREA",
			arctic.ReasonNoBuffer, "NO_BUFFER",
			arctic.ReasonRemoteForm, "REMOTE_FORM", arctic.ReasonRemoteRequest, "REMOTE_REQUEST",
			arctic.ReasonNotOpened, "NOT_OPENED",
			arctic.ReasonRights, "RIGHTS", arctic.ReasonLocked, "LOCKED", arctic.ReasonAlignment, "ALIGNMENT",
			arctic.ReasonOperation, "OPERATION", arctic.ReasonChain, "CHAIN", arctic.ReasonWithheld, "WITHHELD",
			arctic.ReasonWindow, "WINDOW", arctic.ReasonOperand, "OPERAND"},
		"OP_": {arctic.RemotePut, "PUT", arctic.RemoteGet, "GET", arctic.RemoteWrite, "WRITE", arctic.RemoteRead,
			"READ", arctic.RemoteAdd, "ADD",
			arctic.RemoteAnd, "AND", arctic.RemoteOr, "OR", arctic.RemoteXor, "XOR", arctic.RemoteMin, "MIN",
			arctic.RemoteMax, "MAX", arctic.RemoteProd, "PROD",
			arctic.RemoteSwap, "SWAP", arctic.RemoteCompareSwap, "COMPARE_SWAP", arctic.RemoteMaskedSwap, "MASKED_SWAP",
			arctic.RemoteLock, "LOCK", arctic.RemoteUnlock, "UNLOCK"},
		"KIND_": {attach.KindAttach, "ATTACH", attach.KindSegment, "SEGMENT", attach.KindUnsegment, "UNSEGMENT",
			attach.KindJob, "JOB",
			attach.KindStatus, "STATUS", attach.KindAdmin, "ADMIN", attach.KindInfo, "INFO",
			attach.KindDetach, "DETACH"},
		"ERR_": {attach.ErrMalformed, "MALFORMED", attach.ErrVersion, "VERSION", attach.ErrKind, "KIND",
			attach.ErrForbidden, "FORBIDDEN",
			attach.ErrToken, "TOKEN", attach.ErrQuota, "QUOTA", attach.ErrTaken, "TAKEN", attach.ErrGroup, "GROUP",
			attach.ErrNode, "NODE",
			attach.ErrRoute, "ROUTE", attach.ErrSlots, "SLOTS", attach.ErrAttached, "ATTACHED", attach.ErrNotAttached,
			"NOT_ATTACHED",
			attach.ErrSegment, "SEGMENT", attach.ErrOverlap, "OVERLAP", attach.ErrTooManySegments, "TOO_MANY_SEGMENTS",
			attach.ErrNoSegment, "NO_SEGMENT", attach.ErrBusy, "BUSY", attach.ErrFull, "FULL",
			attach.ErrCommand, "COMMAND",
			attach.ErrStopping, "STOPPING", attach.ErrInternal, "INTERNAL", attach.ErrNoToken, "NO_TOKEN",
			attach.ErrInterface, "INTERFACE", attach.ErrHost, "HOST", attach.ErrKey, "KEY"},
	} {
		for i := 0; i < len(list); i += 2 {
			c["FUNI_"+name+list[i+1].(string)] = reflect.ValueOf(list[i]).Uint()
		}
	}
	return c
}

// texts are lines of the program's output besides constants.
func texts() map[string]string {
	token := attach.Token(bytes.Repeat([]byte{0xa5}, attach.TokenSize))
	encoded := map[string][]byte{
		"attach request": attach.AttachRequest{GID: 0x102, Node: 0x304, Slots: 64, Token: token}.Encode(),
		"remote request": attach.AttachRequest{Remote: funi.RemoteSizes{KeySlots: 1, Areas: 1024,
			Notifications: 65536}}.Encode(),
		"attach answer": attach.AttachAnswer{ABI: 1, Context: 2, GID: 0x102, Node: 3, Nodes: 0x506, Slots: 64,
			Memory: 4096 + 6*64*128, Incarnation: 0x708090a,
			Remote: funi.RemoteSizes{KeySlots: 8, Areas: 4, Notifications: 2}}.Encode(),
		"segment": attach.SegmentRequest{Base: 0x1000, Rights: funi.Source | funi.Destination,
			Bytes: 0x123456789abc}.Encode(),
		"segment answer": attach.SegmentRequest{Base: 0x1000, Rights: funi.Source | funi.Destination,
			Bytes: 0x123456789abc}.EncodeAnswer(),
		"unsegment":      attach.UnsegmentRequest{Base: 0x1000}.Encode(),
		"detach":         attach.DetachRequest{Linger: 1500 * time.Millisecond}.Encode(),
		"default socket": []byte(attach.DefaultSocket),
		"message":        slotBytesOf(func(s *funi.Slot) { s.SetHeader(funi.NewHeader(0x1234, 0x1ff, 21)) }),
		"long type":      slotBytesOf(func(s *funi.Slot) { s.SetHeader(funi.NewHeader(0xffff, 511, 21)) }),
		"short transfer": slotBytesOf(func(s *funi.Slot) {
			s.SetTransfer(7, 3, funi.Transfer{Destination: 0x40, Argument: 9, Words: 16})
		}),
		"longer transfer": slotBytesOf(func(s *funi.Slot) {
			s.SetTransfer(7, 511, funi.Transfer{Source: 0x20, Destination: 0x40, Argument: 9, Words: 20})
		}),
	}
	out := map[string]string{}
	maps.Copy(encoded, remoteTexts())
	for name, b := range encoded {
		out[name] = hex.EncodeToString(b)
	}
	for name, n := range map[string]funi.Notice{"notice": {Address: 0x40, Argument: 9, Words: 12},
		"long notice": {Address: 0x50, Argument: 8, Words: 4096}} {
		out[name] = fmt.Sprintf("1 %x %x %x", n.Address, n.Argument, n.Words)
	}
	out["no notice"], out["type"], out["words"] = "0", "511", "21"
	return out
}

// seed is one of which every byte is another.
var seed = rats.Seed{Protocol: 7, Ticket: rats.Ticket{Node: 0x102, Area: 0x304, Key: 0x1122334455667788, Offset: 0x1000,
	Size: 0x20304, Count: 0}}

// trailerFlags returns the first word of a trailer.
func trailerFlags(t arctic.Trailer) uint64 {
	w := make([]uint32, t.Words())
	t.Put(w)
	return uint64(w[0])
}

// windowFlags returns the word of rights of a block that opens a window.
func windowFlags(w funi.Window) uint64 {
	var s funi.Slot
	s.SetOpenWindow(&w, 0)
	return uint64(s[funi.RemoteAreaWord])
}

// chainFlags returns the flags of a block of chains.
func chainFlags(compose func(*funi.Slot)) uint64 {
	var s funi.Slot
	compose(&s)
	return uint64(s[funi.RemoteAreaWord])
}

func seedBytes(s rats.Seed) []byte { b := s.Encode(); return b[:] }

// remoteTexts are seeds and request blocks for remote memory.
func remoteTexts() map[string][]byte {
	rest := seed
	part, err := rest.Split(0x10203)
	if err != nil {
		panic(err)
	}
	block := func(compose func(*funi.Slot)) []byte {
		var s funi.Slot
		for i := range s {
			s[i] = 0xeeeeeeee // what is composed leaves nothing of this that the card reads
		}
		compose(&s)
		return funi.Bytes(s[:])
	}
	const key = 0x1122334455660001
	data := []byte("thirteen byte")
	trailer := arctic.Trailer{Notify: true, Tag: 0x1122334455667788, Add: true, Key: seed.Key,
		Address: 0x9876_0000_0008, Value: 1<<40 | 3}
	operation := func(cookie uint32, o funi.Operation) func(*funi.Slot) {
		o.Key, o.Address, o.Cookie = seed.Key, 0xabcd_1234_5678, cookie
		return func(s *funi.Slot) { s.SetOperation(0x102, &o) }
	}
	return map[string][]byte{
		"seed": seedBytes(seed), "seed text": []byte(seed.String()), "part": seedBytes(part), "rest": seedBytes(rest),
		"close key slot": block(func(s *funi.Slot) { s.SetCloseKeySlot(key, 1) }),
		"open area":      block(func(s *funi.Slot) { s.SetOpenArea(0, key, 9, true, 2) }),
		"reset area":     block(func(s *funi.Slot) { s.SetResetArea(0, 3) }),
		"close area":     block(func(s *funi.Slot) { s.SetCloseArea(0, 4) }),
		"short message": block(func(s *funi.Slot) {
			s.SetPut(0x102, &funi.Put{Key: seed.Key, Offset: 0x1000, Area: 0x304, Counted: true, Cookie: 5,
				Metadata: []uint32{1, 2, 3}, Data: data})
		}),
		"long message": block(func(s *funi.Slot) {
			s.SetPut(0x102, &funi.Put{Key: seed.Key, Offset: 0x1000, Source: 0x2010, Length: 100, Area: 0x304,
				Counted: true, Cookie: 6, Metadata: []uint32{4}})
		}),
		"open window": block(func(s *funi.Slot) { // whose secret is not compared
			s.SetOpenWindow(&funi.Window{Base: 0x2004, Bytes: 100, Address: 0xabcd00001000,
				Rights: funi.RightRead | funi.RightNotify, Credit: 1}, 8)
		}),
		"suspend": block(func(s *funi.Slot) { s.SetSuspendWindow(key, 9) }),
		"resume":  block(func(s *funi.Slot) { s.SetResumeWindow(key, 10) }),
		"put": block(operation(11,
			funi.Operation{WindowRequest: arctic.WindowRequest{Ack: true, Operands: data, Trailer: trailer}})),
		"long put": block(operation(12, funi.Operation{WindowRequest: arctic.WindowRequest{Ack: true},
			Source: 0x2010, Length: 100, Silent: true})),
		"notifying put": block(operation(13,
			funi.Operation{WindowRequest: arctic.WindowRequest{Ack: true, Operands: data[:1],
				Trailer: arctic.Trailer{Notify: true, Tag: 5}}})),
		"get": block(operation(14,
			funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet},
				Source: 0x2000, Length: 12})),
		"compare and swap": block(operation(15,
			funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteCompareSwap,
				Element: arctic.Uint16,
				Fetch:   true, Bytes: 2, Operands: data[:4]}})),
		"silent add": block(operation(16,
			funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteAdd,
				Element: arctic.Float32, Ack: true,
				Bytes: 12, Operands: data[:12]}, Silent: true})),
		"join": block(func(s *funi.Slot) {
			s.SetChain(&funi.Chain{Number: 63, Parent: 0xfffe,
				Next: []funi.Next{{Node: 0x102, Members: 0x304}, {Node: 0xffff, Members: 1}}}, 18)
		}),
		"join first": block(func(s *funi.Slot) { s.SetChain(&funi.Chain{Number: 3, First: true}, 19) }),
		"leave":      block(func(s *funi.Slot) { s.SetLeaveChain(3, 20) }),
		"multicast": block(func(s *funi.Slot) {
			s.SetMulticast(0x102, &funi.MulticastRequest{Chain: 5, Members: 0xfffe, Cookie: 21, Message: 511,
				Data: data[:12]})
		}),
		"multicast put": block(func(s *funi.Slot) {
			s.SetMulticast(0x102, &funi.MulticastRequest{Chain: 5, Members: 7, Cookie: 22, Put: true, Key: seed.Key,
				Address: 0xabcd_1234_5678, Data: data})
		}),
		"open absent window": block(func(s *funi.Slot) {
			s.SetOpenWindow(&funi.Window{Key: 0x1122334455660002, Base: 0x2004, Bytes: 100,
				Rights: funi.RightWrite | funi.RightNotify, Credit: 1, Absent: true}, 23)
		}),
		"open window as": block(func(s *funi.Slot) {
			s.SetOpenWindow(&funi.Window{Key: 0x1122334455660003, Base: 0x2004, Bytes: 100,
				Rights: funi.RightWrite}, 24)
		}),
		"read": block(operation(17, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteRead,
			Element: arctic.Int64, Bytes: 8}})),
		"write": block(func(s *funi.Slot) {
			s.SetPut(0x102, &funi.Put{Key: seed.Key, Offset: 0x1005, Area: 0x304, Cookie: 7, Data: data[:12]})
		}),
	}
}

func slotBytesOf(compose func(*funi.Slot)) []byte {
	var s funi.Slot
	compose(&s)
	return funi.Bytes(s[:5])
}

// program prints what the two have to agree on.
const program = `
#include "funi.h"

static void constant(const char *name, unsigned long long v) { printf("%%s = %%llu\n", name, v); }

static void text(const char *name, const void *p, size_t n)
{
	printf("%%s: ", name);
	for (size_t i = 0; i < n; i++)
		printf("%%02x", ((const unsigned char *)p)[i]);
	printf("\n");
}

static void notice(const char *name, uint32_t header, uint32_t address, uint32_t argument, uint32_t length)
{
	uint32_t slot[FUNI_SLOT_WORDS] = { header, 0, address, argument, length };
	struct funi_notice n;
	int is = funi_is_notice(slot, &n);
	printf(is ? "%%s: %%d %%x %%x %%x\n" : "%%s: %%d\n", name, is, n.address, n.argument, n.words);
}

static struct funi_page page;
static uint32_t slots[32 * FUNI_SLOT_WORDS];
static struct funi_context c;

static void block(const char *name, int code)
{
	if (code != 0)
		printf("%%s: %%d %%s\n", name, code, c.error);
	else
		text(name, slots + (c.send[FUNI_REQUEST].head - 1) * FUNI_SLOT_WORDS, FUNI_SLOT_WORDS * 4);
}

/* The blocks of windows, of a context that remote has made. */
static void windows(uint32_t *memory)
{
	const struct funi_target t = { 0x102, UINT64_C(0x1122334455667788), UINT64_C(0xabcd12345678) };
	const struct funi_trailer all = { 1, t.key, FUNI_TRAILER_ADD, t.key, UINT64_C(0x987600000008), UINT64_C(1) << 40 | 3 }, tag = { 1, 5, 0, 0, 0, 0 };
	const char *data = "thirteen byte";
	uint64_t key;
	uint32_t h;
	int code = funi_expose_window(&c, memory + 1, 100, UINT64_C(0xabcd00001000), FUNI_MAY_READ | FUNI_MAY_NOTIFY, 1, &key, NULL);
	uint32_t *s = slots + (c.send[FUNI_REQUEST].head - 1) * FUNI_SLOT_WORDS;
	s[FUNI_REMOTE_KEY_WORD] = s[FUNI_REMOTE_KEY_WORD + 1] = 0;
	block("open window", code);
	c.remote->keys[1].key = UINT64_C(0x1122334455660001);
	c.remote->keys[1].open = 1;
	block("suspend", funi_suspend(&c, c.remote->keys[1].key, NULL));
	block("resume", funi_resume(&c, c.remote->keys[1].key, NULL));
	block("put", funi_put(&c, &t, data, 13, &all, &h));
	block("long put", funi_put(&c, &t, memory + 4, 100, NULL, NULL));
	block("notifying put", funi_put(&c, &t, data, 1, &tag, &h));
	block("get", funi_get(&c, &t, memory, 12, &h));
	block("compare and swap", funi_atomic(&c, &t, FUNI_OP_COMPARE_SWAP, FUNI_U16, data, 2, &h));
	block("silent add", funi_atomic(&c, &t, FUNI_OP_ADD, FUNI_F32, data, 12, NULL));
	block("read", funi_atomic(&c, &t, FUNI_OP_READ, FUNI_I64, NULL, 8, &h));
	const struct funi_chain chain = { 63, 0, 0xfffe, 2, { { 0x102, 0x304 }, { 0xffff, 1 } } }, first = { 3, 1, 77, 0, { { 0, 0 } } };
	uint32_t words[3];
	memcpy(words, data, 12);
	block("join", funi_join(&c, &chain, &h));
	block("join first", funi_join(&c, &first, NULL));
	block("leave", funi_leave(&c, 3, NULL));
	block("multicast", funi_multicast(&c, 0x102, 5, 0xfffe, 511, words, 3, &h));
	block("multicast put", funi_multicast_put(&c, 0x102, 5, 7, t.key, t.address, data, 13, &h));
	block("open absent window", funi_expose_window_as(&c, memory + 1, 100, 0, FUNI_MAY_WRITE | FUNI_MAY_NOTIFY | FUNI_OPEN_ABSENT, 1, UINT64_C(0x1122334455660002), NULL));
	block("open window as", funi_expose_window_as(&c, memory + 1, 100, 0, FUNI_MAY_WRITE, 0, UINT64_C(0x1122334455660003), NULL));
}

/* What a context without a card composes. */
static void remote(void)
{
	static uint32_t memory[64];
	struct funi_seed s = { { 0x102, 0x304, UINT64_C(0x1122334455667788), 0x1000, 0x20304, 0 }, 7 }, part, again;
	const uint32_t words[3] = { 1, 2, 3 }, word = 4;
	uint8_t b[FUNI_SEED_SIZE];
	char line[FUNI_SEED_TEXT];
	uint16_t area;

	funi_encode_seed(&s, b);
	text("seed", b, sizeof b);
	funi_seed_text(&s, line);
	text("seed text", line, strlen(line));
	if (funi_parse_seed(line, &again) != 0 || memcmp(&again.ticket, &s.ticket, sizeof s.ticket) != 0 || again.protocol != s.protocol)
		printf("the seed did not come back\n");
	memset(slots, 0xee, sizeof slots);
	c.page = &page;
	c.mask = 31;
	c.send[FUNI_REQUEST].slots = slots;
	c.send[FUNI_REQUEST].own = &page.reg[FUNI_RQSQ_HEAD].word;
	c.send[FUNI_REQUEST].its = &page.reg[FUNI_RQSQ_TAIL].word;
	c.remote = (struct funi_remote *)calloc(1, sizeof *c.remote);
	c.remote->keys = (struct funi_key_slot *)calloc(4, sizeof *c.remote->keys);
	c.remote->sizes.key_slots = c.remote->sizes.areas = 4;
	c.remote->sizes.notifications = 64;
	c.remote->credits = (uint32_t *)calloc(4, sizeof *c.remote->credits);
	if (funi_fill_numbers(&c.remote->key_slots, 4) != 0 || funi_fill_numbers(&c.remote->areas, 4) != 0)
		return;
	funi_note_segment(&c, 0x2000, memory, sizeof memory, FUNI_SOURCE | FUNI_KEYED);
	c.remote->keys[1].key = UINT64_C(0x1122334455660001);
	c.remote->keys[1].open = 1;
	block("close key slot", funi_revoke(&c, c.remote->keys[1].key, NULL));
	block("open area", funi_open_area(&c, c.remote->keys[1].key, 9, 5, &area, NULL));
	block("reset area", funi_reset_area(&c, area, NULL));
	block("close area", funi_close_area(&c, area, NULL));
	block("short message", funi_sendmsg(&c, &s.ticket, "thirteen byte", 13, words, 3, NULL));
	block("long message", funi_sendmsg(&c, &s.ticket, memory + 4, 100, &word, 1, NULL));
	block("write", funi_write_remote(&c, &s.ticket, 5, "thirteen byte", 12, NULL));
	windows(memory);
	if (funi_split_seed(&s, 0x10203, &part) != 0)
		return;
	funi_encode_seed(&part, b);
	text("part", b, sizeof b);
	funi_encode_seed(&s, b);
	text("rest", b, sizeof b);
}

int main(void)
{
%s
	constant("page.reg[1]", offsetof(struct funi_page, reg[1]));
	constant("page.return_head", offsetof(struct funi_page, return_head));
	constant("page.return_tail", offsetof(struct funi_page, return_tail));
	constant("page.returns_lost", offsetof(struct funi_page, returns_lost));
	constant("page.asleep", offsetof(struct funi_page, asleep));
	constant("page.fault", offsetof(struct funi_page, fault));
	constant("page.version", offsetof(struct funi_page, version));
	constant("page.wake", offsetof(struct funi_page, wake));
	constant("page.gone", offsetof(struct funi_page, gone));
	constant("page.why", offsetof(struct funi_page, why));
	constant("page.looks", offsetof(struct funi_page, looks));
	constant("page.trigger", offsetof(struct funi_page, trigger));
	constant("page.by_trigger", offsetof(struct funi_page, by_trigger));
	constant("page.reg[14].pad[7]", offsetof(struct funi_page, reg[14].pad[7]));
	constant("page.returns", offsetof(struct funi_page, returns));
	constant("page.notes_head", offsetof(struct funi_page, notes_head));
	constant("page.notes_tail", offsetof(struct funi_page, notes_tail));
	constant("page.key_slots", offsetof(struct funi_page, key_slots));
	constant("page.areas", offsetof(struct funi_page, areas));
	constant("page.notifications", offsetof(struct funi_page, notifications));
	constant("page.completed", offsetof(struct funi_page, completed));
	constant("page.written", offsetof(struct funi_page, written));
	constant("page.lost_to", offsetof(struct funi_page, lost_to));
	constant("page.lost_seen", offsetof(struct funi_page, return_tail.pad));
	constant("page.operations_lost", offsetof(struct funi_page, operations_lost));
	constant("page.returns[1]", offsetof(struct funi_page, returns[1]));
	constant("sizeof page", sizeof(struct funi_page));
	constant("sizeof doorbells", sizeof(struct funi_doorbells));
	constant("doorbells.bells", offsetof(struct funi_doorbells, bells));

	struct funi_attach_request r = { funi_message_header(FUNI_KIND_ATTACH, sizeof r), 0x102, 0x304, 64, { 0 }, { 0 } };
	memset(r.token, 0xa5, sizeof r.token);
	text("attach request", &r, sizeof r);
	struct funi_attach_request m = { funi_message_header(FUNI_KIND_ATTACH, sizeof m), 0, 0, 0, { 0 }, { 0 } };
	m.remote[0] = (uint8_t)funi_remote_size(1, FUNI_MAX_REMOTE);
	m.remote[1] = (uint8_t)funi_remote_size(1024, FUNI_MAX_REMOTE);
	m.remote[2] = (uint8_t)funi_remote_size(65536, FUNI_MAX_NOTIFICATIONS);
	text("remote request", &m, sizeof m);
	struct funi_attach_answer a = { funi_message_header(FUNI_KIND_ATTACH | FUNI_ANSWER_BIT, sizeof a), 1, 2, 0x102, 3, 0x506, 64, { 4, 3, 2, 0 },
		FUNI_PAGE_SIZE + FUNI_SHARED_QUEUES * 64 * FUNI_SLOT_WORDS * 4, 0x708090a, 0 };
	text("attach answer", &a, sizeof a);
	struct funi_segment_message s = { funi_message_header(FUNI_KIND_SEGMENT, sizeof s), 0x1000, FUNI_SOURCE | FUNI_DESTINATION, 0x123456789abc };
	text("segment", &s, sizeof s);
	s.header.kind |= FUNI_ANSWER_BIT;
	text("segment answer", &s, sizeof s);
	struct funi_unsegment_request u = { funi_message_header(FUNI_KIND_UNSEGMENT, sizeof u), 0x1000, 0 };
	text("unsegment", &u, sizeof u);
	struct funi_detach_request d = { funi_message_header(FUNI_KIND_DETACH, sizeof d), 1500, 0 };
	text("detach", &d, sizeof d);
	text("default socket", FUNI_DEFAULT_SOCKET, strlen(FUNI_DEFAULT_SOCKET));

	uint32_t slot[FUNI_SLOT_WORDS] = { funi_header(0x1234, 0x1ff, 21) };
	text("message", slot, 20);
	slot[0] = funi_header(0xffff, 511, 21);
	text("long type", slot, 20);
	printf("type: %%u\nwords: %%u\n", funi_type(slot[0]), funi_words(slot[0]));
	funi_transfer(slot, 7, 3, 0, 0x40, 9, 16);
	text("short transfer", slot, 20);
	funi_transfer(slot, 7, 511, 0x20, 0x40, 9, 20);
	text("longer transfer", slot, 20);
	notice("notice", %#x, 0x40, 9, 77);
	notice("long notice", %#x, 0x50, 8, 4096);
	notice("no notice", %#x, 0, 0, 0);
	remote();
	return 0;
}
`

// Rule: a C program with funi.h sees the same ABI as a Go program (doc.go): it prints every
// constant that the header defines, whatever there will be, and what it prints is what Go has.
func TestHeaderIsTheABI(t *testing.T) {
	header, err := os.ReadFile("funi.h")
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"FUNI_H", "FUNI_DEFAULT_SOCKET", "FUNI_ASSERT", "FUNI_WARNING"} // no numbers
	// Enumerators are in capitals, too, and so is nothing else that starts like them.
	names := regexp.MustCompile(`\bFUNI_[A-Z0-9_]+\b`).FindAllString(string(header), -1)
	slices.Sort(names)
	var print strings.Builder
	for _, n := range slices.Compact(names) {
		if !slices.Contains(own, n) {
			fmt.Fprintf(&print, "\tconstant(%q, (unsigned long long)(%s));\n", n, n)
		}
	}
	var short, long funi.Slot
	short.SetNotice(5, 3, false, funi.Notice{Words: 12})
	long.SetNotice(5, 3, true, funi.Notice{Words: 4096})
	source := fmt.Sprintf(program, print.String(), short[0], long[0], uint32(funi.NewHeader(5, 3, 12)))
	dir := t.TempDir()
	file := filepath.Join(dir, "abi.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I.", "-o",
		filepath.Join(dir, "abi"), file).CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "abi")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, said := map[string]uint64{}, map[string]string{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if name, v, ok := strings.Cut(line, " = "); ok {
			var n uint64
			if _, err := fmt.Sscan(v, &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			got[name] = n & math.MaxUint32
		} else if name, v, ok := strings.Cut(line, ": "); ok {
			said[name] = v
		}
	}
	if d := cmp.Diff(constants(), got); d != "" {
		t.Errorf("constants of Go and of funi.h (-Go +C):\n%s", d)
	}
	if d := cmp.Diff(texts(), said); d != "" {
		t.Errorf("messages and slots of Go and of funi.h (-Go +C):\n%s", d)
	}
}
