package port

// Geometry is the memory and the rings of a direct port, as its process wants them and a helper
// makes them (package ports): UMEM frames of FrameSize bytes, and slots of each ring.
type Geometry struct {
	FrameSize      uint32 `json:"frame_size_bytes"`
	Frames         uint32 `json:"frames"`
	RxSize         uint32 `json:"rx_slots"`
	TxSize         uint32 `json:"tx_slots"`
	FillSize       uint32 `json:"fill_slots"`
	CompletionSize uint32 `json:"completion_slots"`
}

// Bytes is how much memory it is.
func (g *Geometry) Bytes() int64 { return int64(g.FrameSize) * int64(g.Frames) }
