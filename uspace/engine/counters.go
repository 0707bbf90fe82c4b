package engine

// This file counts what the card does. Nothing is dropped without a count.

import "github.com/funet/funet/uspace/engine/link"

// Counters are totals since the card was made. Frames are Ethernet frames,
// packets Arctic packets.
type Counters struct {
	link.Counters
	PacketsRetrieved uint64 `json:"packets_retrieved"`
	PacketsDelivered uint64 `json:"packets_delivered"`
	Returned         uint64 `json:"packets_returned_to_process"`
	ForgedSource     uint64 `json:"frames_rejected_for_source_node"`
	// ForeignJob also counts packets between contexts of this card.
	ForeignJob         uint64 `json:"frames_rejected_for_job"`
	UnknownKind        uint64 `json:"unknown_kind_packets"`
	DestinationRefused uint64 `json:"transfer_destinations_refused"`
	RemoteRefused      uint64 `json:"remote_writes_refused"`
	Notifications      uint64 `json:"notifications"`
	Operations         uint64 `json:"operations_carried_out"`   // of others, on windows here
	EntriesFetched     uint64 `json:"window_entries_fetched"`   // by a modelled machine's card
	Completions        uint64 `json:"operations_completed"`     // operations of processes here
	AnswersRefused     uint64 `json:"answers_refused"`          // of others, to no open request
	AnswersReturned    uint64 `json:"answers_nobody_waits_for"` // answers that came back
	Multicasts         uint64 `json:"multicasts_delivered"`
	SentOn             uint64 `json:"multicast_copies_sent_on"`
	LateWrites         uint64 `json:"late_remote_writes_copied"`
	// ForwardsRefused counts messages of other cards about a node's home that were not believed.
	ForwardsRefused uint64 `json:"forwards_refused"`
	Redirected      uint64 `json:"nodes_moved"` // nodes of groups here, from this card or others
	// Rerouted counts packets sent on to the card that their receiver has moved to, each time.
	Rerouted          uint64 `json:"packets_sent_after"`
	TransfersTorn     uint64 `json:"transfers_begun_for_another_process"`
	Discarded         uint64 `json:"packets_discarded_with_context"`
	MemoryErrors      uint64 `json:"memory_errors"`
	LoopedToOwnCard   uint64 `json:"packets_to_own_card"`
	SendQueueNoTicket uint64 `json:"retrieval_found_no_line"`
	Triggers          uint64 `json:"triggers_answered"` // those that were refused, too
	TriggersRefused   uint64 `json:"triggers_refused"`
	PathLines         uint64 `json:"path_lines_sent"`
	PathPackets       uint64 `json:"path_packets_stored"`
	PathsOpened       uint64 `json:"path_ends_opened"`
	PathsRefused      uint64 `json:"path_packets_refused"`
}

// Counters returns the totals.
func (c *Card) Counters() Counters {
	n := c.counters
	n.Counters = c.link.Counters
	return n
}
