package funi

// ABIWords are the places of words of the register page, in bytes, and bits, that only
// the two ends know, by their names in funi.h.
var ABIWords = map[string]uint64{
	"FUNI_SHARED_QUEUES": sharedQueues,
	"FUNI_THREAD_SLEEPS": threadSleeps,
	"FUNI_TRANSFER_BIT":  transferBit,
	"FUNI_MANY_BIT":      manyBit,

	"page.reg[1]":             registerWords * 4,
	"page.return_head":        returnHead * 4,
	"page.return_tail":        returnTail * 4,
	"page.returns_lost":       returnsLost * 4,
	"page.asleep":             asleepWord * 4,
	"page.fault":              faultWord * 4,
	"page.version":            versionWord * 4,
	"page.wake":               wakeWord * 4,
	"page.gone":               goneWord * 4,
	"page.looks":              looksWord * 4,
	"page.trigger":            triggerWord * 4,
	"page.by_trigger":         issueByTrigger * 4,
	"page.reg[14].pad[7]":     triggerAnswerWord * 4,
	"page.why":                whyWord * 4,
	"page.notes_head":         notesHead * 4,
	"page.notes_tail":         notesTail * 4,
	"page.key_slots":          keySlotsWord * 4,
	"page.areas":              areasWord * 4,
	"page.notifications":      notesSizeWord * 4,
	"FUNI_NOTE_BYTES":         noteBytes,
	"FUNI_NOTE_METADATA_WORD": noteMetadataWord,
	"FUNI_NOTE_KIND_WORD":     noteKindWord,
	"FUNI_OPERATE_ACK":        operateAck,
	"FUNI_OPERATE_FETCH":      operateFetch,
	"FUNI_OPERATE_SILENT":     operateSilent,
	"page.completed":          completedWord * 4,
	"page.operations_lost":    operationsLost * 4,
	"page.lost_to":            lostTo * 4,
	"page.lost_seen":          lostSeen * 4,
	"page.written":            writtenWord * 4,
	"FUNI_WAKE_ONCE":          wakeOnce,
	"FUNI_WAKE_WRITES":        wakeWrites,
	"page.returns":            returnRing * 4,
	"page.returns[1]":         (returnRing + returnWords) * 4,
}

// The words of lost.go.
const (
	LostSeen  = lostSeen
	LostTo    = lostTo
	LostCount = lostCount
	LostOne   = lostOne
	LostShift = lostShift
)

// ResumedCard is another card's end of a context that has come with its memory.
func ResumedCard(m *Memory) *Card {
	c := &Card{memory: m, page: m.Page}
	c.Resume()
	return c
}
