package port

// Geometry describes the memory and the rings of a direct port, which its process asks for and a
// helper makes (package ports). It has Frames UMEM frames of FrameSize bytes, and the slots of each
// ring.
type Geometry struct {
	FrameSize      uint32 `json:"frame_size_bytes"`
	Frames         uint32 `json:"frames"`
	RxSize         uint32 `json:"rx_slots"`
	TxSize         uint32 `json:"tx_slots"`
	FillSize       uint32 `json:"fill_slots"`
	CompletionSize uint32 `json:"completion_slots"`
}

// Bytes returns the size of the memory.
func (g *Geometry) Bytes() int64 { return int64(g.FrameSize) * int64(g.Frames) }
