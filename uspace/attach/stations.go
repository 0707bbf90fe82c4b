package attach

// This file has what a process with a direct port needs to send bundles (package port/bundle).
// Where routers take bundles apart, it asks which of the job's nodes are on one host, since a
// bundle has one frame for a host (KindStations).

const (
	// NoStation takes the place of a host in EncodeStations: frames for the node travel alone.
	NoStation = 0xffff
	// MaxStations is the most nodes of EncodeStations. Frames for others travel alone.
	MaxStations = (MaxMessage - HeaderSize) / 2
)

// EncodeStations composes the answer to a request of KindStations: the number of the host of each
// node of the job, from node 0 on, or NoStation. Without nodes no frame may travel in a bundle.
//
//	u16 host@16, u16 host@18, ...
func EncodeStations(hosts []uint16) ([]byte, error) {
	return encodeNodes(hosts, KindStations)
}

// DecodeStations reads the answer.
func DecodeStations(b []byte) ([]uint16, error) {
	return decodeNodes(b, KindStations, "an answer with hosts")
}

// Stations returns the number of the host of each node of the job, from node 0 on, or NoStation. It
// needs a running Watch and ends with Close, as Neighbours does. ErrKind reports a daemon of a
// release whose guard knows no bundles.
func (p *Port) Stations() ([]uint16, error) {
	return p.list(KindStations, DecodeStations)
}
