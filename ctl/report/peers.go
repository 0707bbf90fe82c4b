package report

// This file describes the other cards and the keys that this host shares with them.

import "github.com/funet/funet/uspace/engine"

// PeerStatus is a peer in the status.
type PeerStatus struct {
	Card    uint16 `json:"card"`
	Address string `json:"address"` // Ethernet or IP
	Found   bool   `json:"found"`   // on the segment; else it is from the peers file
	Host    string `json:"host,omitempty"`
	// HeardAgo is the seconds since it last answered a hello, and RoundTrip the microseconds that
	// this took; negative: it has not answered yet. Unanswered counts the hellos since then.
	HeardAgo   float64 `json:"heard_seconds_ago"`
	RoundTrip  float64 `json:"round_trip_us"`
	Unanswered int     `json:"unanswered"`
	Key        PeerKey `json:"key"`
}

// HelloStatus holds the findings of the hellos.
type HelloStatus struct {
	Cluster string `json:"cluster,omitempty"` // whose hosts are found
	// Known is the number of peers, and Silent the number of those that did not answer the last
	// hello. Peers lists those that do not answer first. LeftOut is the number that had no room.
	Known   int          `json:"known"`
	Silent  int          `json:"silent"`
	Peers   []PeerStatus `json:"peers"`
	LeftOut int          `json:"left_out"`
	// Faults are lines about hosts that contradict others, or that this host cannot talk to.
	Faults []string `json:"faults"`
}

// HelloAnswer is the answer to hello.
type HelloAnswer struct {
	Card      uint16 `json:"card"`      // the card that was asked
	Address   string `json:"address"`   // Ethernet or IP, where this host has it
	Interface string `json:"interface"` // interface of this host that leads there
	Encap     string `json:"encap"`
	Answered  bool   `json:"answered"`
	// The fields below are set if the card has answered.
	RoundTrip   float64 `json:"round_trip_us"`
	Tries       int     `json:"tries"`
	Said        uint16  `json:"said_card"` // the number that the card says it has
	Host        string  `json:"host"`
	Cluster     string  `json:"cluster"`
	Frames      uint8   `json:"frames"` // version
	FrameSize   int     `json:"frame_size"`
	Incarnation uint32  `json:"incarnation"`
	Own         string  `json:"own_cluster"` // cluster of this host
	// Key says whether the keys of the two cards agree. OwnKey is the key that this card has for
	// the other; "": none.
	Key    PeerKey `json:"key"`
	OwnKey string  `json:"own_key"`
	// Faults are the lines about this card, from everything heard so far.
	Faults []string `json:"faults"`
}

// KeyStatus is a key of this host, and the number of peers that share it.
type KeyStatus struct {
	File     string `json:"file"`
	Identity string `json:"identity"` // as `funet key show` prints it
	Peers    int    `json:"peers"`
}

// PeerKey says whether the keys of this card and a peer agree.
type PeerKey struct {
	State string `json:"state"` // one of the words below
	// Doubt is KeyNotThere, KeyNotHere or KeyOther if a greeting has said so in the name of a peer
	// that is known to have the right key, or to have none like this host. Else it is "".
	Doubt string `json:"doubt,omitempty"`
	// Refused says that the two cards exchange nothing because of their keys.
	Refused bool `json:"refused"`
	// Met says that the peer has been greeted, and not been lost since.
	Met bool `json:"met"`
}

// The values of PeerKey.State and PeerKey.Doubt.
var (
	KeyNone     = engine.Unkeyed.String()
	KeyWaiting  = engine.Waiting.String() // to be greeted with the key
	KeyNotThere = engine.NoKeyThere.String()
	KeyNotHere  = engine.NoKeyHere.String()
	KeyOther    = engine.OtherKey.String()
)

// The values of PeerKey.State when both have the key: frames are encrypted, or only authenticated.
const (
	KeyEncrypts      = "encrypted"
	KeyAuthenticates = "authenticated"
)

// Words describes it in one line, for a table.
func (k PeerKey) Words() string {
	if k.Doubt != "" {
		return k.State + "; now " + k.Doubt
	}
	return k.State
}
