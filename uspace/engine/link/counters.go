package link

// This file counts what happens on a card's links. Nothing is dropped without a count.

// Counters are totals since the card was made. Frames are Ethernet frames, packets Arctic packets.
type Counters struct {
	FramesReceived     uint64 `json:"frames_received"`
	FramesSent         uint64 `json:"frames_sent"`
	FrameBytesReceived uint64 `json:"frame_bytes_received"` // with Ethernet header, without FCS
	FrameBytesSent     uint64 `json:"frame_bytes_sent"`
	PacketsSent        uint64 `json:"packets_sent"`
	TrainsSent         uint64 `json:"trains_sent"` // frames with packets, each once
	Retransmitted      uint64 `json:"frames_retransmitted"`
	Timeouts           uint64 `json:"retransmission_timeouts"`
	AcksSent           uint64 `json:"acknowledgment_frames_sent"`
	RejectsSent        uint64 `json:"packets_rejected"`
	RejectsReceived    uint64 `json:"packets_rejected_by_peers"`
	RepeatedRejects    uint64 `json:"rejects_repeated"`
	Duplicates         uint64 `json:"duplicate_frames"`
	Stale              uint64 `json:"stale_incarnation_frames"`
	NeverSent          uint64 `json:"acknowledgments_of_nothing"`
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
	// sent in the name of a peer that another port leads to
	DroppedPort uint64 `json:"dropped_other_port"`
	// not sealed with the peer's key, or not sealed at all
	DroppedForged    uint64 `json:"dropped_not_authentic"`
	DroppedReplayed  uint64 `json:"dropped_replayed"`  // authentic, but received before
	DroppedKey       uint64 `json:"dropped_other_key"` // greetings
	TransmitRingFull uint64 `json:"transmit_ring_full"`
	PeersLost        uint64 `json:"peers_lost"`
	PeersRestarted   uint64 `json:"peers_restarted"`
	Resynchronised   uint64 `json:"peers_resynchronised"`
	TooLong          uint64 `json:"frames_too_long_for_the_path"` // sent again in others
	Deferred         uint64 `json:"frames_deferred"`              // by a switch, sent again later
}
