// Package attach lets a process without privileges attach to the card of a daemon. It has the
// protocol on the daemon's Unix socket, in both directions, and the client. The client gives a
// program what package card gives it with an embedded card.
//
// The journey of an attachment: the client connects to the socket (SOCK_SEQPACKET: one message per
// packet) and sends an AttachRequest (messages.go). The daemon asks the kernel for the client's
// user (SO_PEERCRED), and makes the context. It answers with the memory that both share, as
// descriptors: the context's memory and the doorbell page of its user. From then on messages travel
// through that memory (package funi). The socket is for segments only, and for the end. When either
// side is gone the kernel closes the socket. Then the daemon detaches the context, or the client
// reports the end.
//
// A process that is many nodes asks for a row instead (KindRow, OpenRow): up to 1,024 contexts of
// consecutive nodes, one behind the other in one file, with one descriptor to wait on. The answer
// has one descriptor more, for the far doorbells of the user. A row ends as a whole, and does not
// move.
//
// A context can move to the card of another daemon (Client.Move, move.go). The client asks the
// second daemon for a context of the same sizes (KindArrive). It tells the first daemon to let the
// context go (KindLeave), and gets an image of what that daemon's card knew. The client copies the
// memory, and hands the image on (KindImage). The memory of the second daemon then takes the place
// of the first's, at the same addresses. An administrator may ask for a move (KindWhither): the
// register page says so, and Drive sees it. A move that is refused leaves the context as it was. A
// move that fails after the first card has let go ends the context (ErrLost).
//
// In a job of direct ports a process gets memory and the socket of a port instead of a context
// (KindPort, port.go), and has a card of its own on it. Its place in the job is held by its
// connection. When the daemon ends, the process shows a ticket to the next daemon (KindResume). On
// the connection the daemon also tells the fate of the other processes of the job, and the process
// may ask for it (KindFate, fate.go). The process also asks there for memory that it shares with
// other nodes of its host (KindNeighbours, KindShare, share.go), and where nodes are, for bundles
// (KindStations).
//
// A message is little-endian and starts with a header:
//
//	u32 magic 0x494e5546@0 ("FUNI"), u16 version@4, u16 kind@6,
//	u32 length of the whole message@8, u32 status@12
//
// The kind of an answer is that of its request with bit 15. A request has status 0, and so has the
// answer to a request that was carried out. The answer to a refused request has a Status, and its
// body is one line of text. The daemon sends one such answer to a message with a wrong magic,
// version or length, and closes the connection.
//
// Every wait of a client ends in time (Config.Timeout) and with a context.Context (Config.Context).
// The program's own waits for the client end with a context of the program's (am.Endpoint.Bind,
// Wait).
//
// Messages are at most 64 KiB. Descriptors travel from daemon to client only: the kernel
// closes those that a client sends (Receive).
package attach
