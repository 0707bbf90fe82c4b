package report

// This file has the administrator's commands and their answers.

// Command is the JSON of a request of KindAdmin. Do is one of gid-list, gid-end {gid}, route-list
// {gid}, route-set {gid, node, card}, profile-set {profile or text}, profile-show, context-list,
// context-switch {gid or context}, context-move {context, socket}, hello {card or address} and
// stop.
type Command struct {
	Do      string  `json:"do"`
	GID     *uint16 `json:"gid,omitempty"`
	Node    *uint16 `json:"node,omitempty"`
	Card    *uint16 `json:"card,omitempty"`
	Context *uint32 `json:"context,omitempty"`
	// Socket is that of the daemon to whose card the context's process is to move.
	Socket string `json:"socket,omitempty"`
	// Address, instead of Card, is the Ethernet or IP address by which the daemon knows the card.
	Address string `json:"address,omitempty"`
	// Profile is the name of a built-in profile, and Text a whole profile. The daemon opens no file
	// on behalf of the client.
	Profile string `json:"profile,omitempty"`
	Text    string `json:"text,omitempty"`
}

// GIDs is the answer to gid-list.
type GIDs struct {
	GIDs    []JobCounted `json:"gids"`
	LeftOut int          `json:"left_out"` // groups for which the answer has no room
}

// Routes is the answer to route-list and route-set: the card of each node, by number.
type Routes struct {
	GID     uint16   `json:"gid"`
	Cards   []uint16 `json:"cards"`
	LeftOut int      `json:"left_out"`
}

// Contexts is the answer to context-list.
type Contexts struct {
	Contexts []ContextStatus `json:"contexts"`
	LeftOut  int             `json:"left_out"`
}

// ProfileStatus is the answer to profile-show and profile-set.
type ProfileStatus struct {
	Profile  string `json:"profile"`
	Contexts int    `json:"contexts"` // groups that are on the card at once; 0: all
}

// Moved is the answer to context-move.
type Moved struct {
	GID  uint16 `json:"gid"`
	Node uint16 `json:"node"`
	Card uint16 `json:"card"` // where it is now
}
