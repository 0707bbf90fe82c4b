package engine

// This file is what the card counts. Nothing is dropped without a count.

// Counters are totals since the card was made. Frames are Ethernet frames,
// packets Arctic packets.
type Counters struct {
	FramesReceived     uint64 `json:"frames_received"`
	FramesSent         uint64 `json:"frames_sent"`
	PacketsRetrieved   uint64 `json:"packets_retrieved"`
	PacketsSent        uint64 `json:"packets_sent"`
	PacketsDelivered   uint64 `json:"packets_delivered"`
	Retransmitted      uint64 `json:"frames_retransmitted"`
	Timeouts           uint64 `json:"retransmission_timeouts"`
	AcksSent           uint64 `json:"acknowledgment_frames_sent"`
	RejectsSent        uint64 `json:"packets_rejected"`
	RejectsReceived    uint64 `json:"packets_rejected_by_peers"`
	Returned           uint64 `json:"packets_returned_to_process"`
	Duplicates         uint64 `json:"duplicate_frames"`
	Stale              uint64 `json:"stale_incarnation_frames"`
	OutOfWindow        uint64 `json:"out_of_window_frames"`
	Greetings          uint64 `json:"greetings_sent"`
	DroppedForeign     uint64 `json:"dropped_not_funet"`
	DroppedShort       uint64 `json:"dropped_short"`
	DroppedVersion     uint64 `json:"dropped_version"`
	DroppedLength      uint64 `json:"dropped_length"`
	DroppedChecksum    uint64 `json:"dropped_checksum"`
	DroppedReserved    uint64 `json:"dropped_reserved_bits"`
	DroppedPacket      uint64 `json:"dropped_bad_train"`
	DroppedGroup       uint64 `json:"dropped_foreign_group"`
	DroppedMisrouted   uint64 `json:"dropped_misrouted"`
	DroppedStranger    uint64 `json:"dropped_unknown_card"`
	TransmitRingFull   uint64 `json:"transmit_ring_full"`
	RepeatedRejects    uint64 `json:"rejects_repeated"`
	PeersLost          uint64 `json:"peers_lost"`
	PeersRestarted     uint64 `json:"peers_restarted"`
	ForgedSource       uint64 `json:"frames_rejected_for_source_node"`
	ForeignJob         uint64 `json:"frames_rejected_for_job"` // and packets between contexts of this card
	UnknownKind        uint64 `json:"unknown_kind_packets"`
	DestinationRefused uint64 `json:"transfer_destinations_refused"`
	TransfersTorn      uint64 `json:"transfers_begun_for_another_process"`
	Discarded          uint64 `json:"packets_discarded_with_context"`
	MemoryErrors       uint64 `json:"memory_errors"`
	LoopedToOwnCard    uint64 `json:"packets_to_own_card"`
	TooLong            uint64 `json:"frames_too_long_for_the_path"` // sent again in others
	SendQueueNoTicket  uint64 `json:"retrieval_found_no_line"`
}

// Counters returns the totals.
func (c *Card) Counters() Counters { return c.counters }
