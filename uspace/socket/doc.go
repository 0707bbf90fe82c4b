// Package socket provides Go's network interface over FUNet: net.Conn, net.Listener,
// net.PacketConn and a Dialer between the processes of a job. So net/http, gRPC and programs
// on top of them run over the card unmodified, and unprivileged if the card is a daemon's.
//
//	s, err := socket.Open(ctx, socket.Options{}) // this process's place in the job
//	l, err := s.Listen("funet", ":80")           // every node can dial it as NODE:80
//	go http.Serve(l, handler)
//	...
//	c, err := s.DialContext(ctx, "funet", "3:80")
//
// The journey of a byte. Write copies it into memory that the card sends from (package rats,
// Stream); few bytes go in one packet. The receiver's card writes it into the connection's ring of
// memory there, in whatever order packets arrive. When a message is complete, the card puts a
// record into the process's notification ring. The goroutine that waits in Read sees the record,
// and copies the data out. A connection is two Streams, one each way. A dialer sends an initial
// request with the seeds of both to the node's server, which makes the other ends (dial.go).
//
// Who drives the card: a goroutine that waits drives it for 50 us. After that one goroutine sleeps
// for all (package lead, with a keeper). So a fast answer is seen without a switch of goroutines,
// and a process that waits for nothing takes no time.
//
// Calls: with Options.Calls the stack has an endpoint of package funet beside the connections, in
// the same place of the job (Stack.Endpoint). One lock guards both, and the goroutine that polls
// does so for both.
//
// Rules:
//
//   - An address is NODE:PORT, of network "funet". ":PORT" or an empty node means this node; port 0
//     picks a port.
//   - Any goroutine may call everything. Deadlines act on calls that wait.
//   - A dial to a port that is not open is refused, as in TCP. Ready waits for the port,
//     and for a node's process that has yet to open its Stack.
//   - Back-pressure: a connection begins with a ring of 16 KiB. The ring doubles while its writer
//     waits, up to 1 MiB, all in the memory of Options. A reader that stalls occupies its own ring
//     and nothing else. Connections to a node send up to 32 KiB each in turn.
//   - Packets (ListenPacket) arrive whole and once, in any order, up to MaxPacket bytes. WriteTo
//     waits for a reader that stalls, until its deadline; a packet that UDP would drop is not lost.
//   - Errors are TCP's, in a *net.OpError: io.EOF, EPIPE, ECONNRESET, ECONNREFUSED, EHOSTUNREACH,
//     ETIMEDOUT, and net.ErrClosed.
//   - Close returns at once. Written data is delivered in the background, for at most 10 s.
//   - A dead peer is detected by data sent to it, and by a probe for each node, not for each
//     connection. The probe is sent twice a second through a daemon, and each 0.8 s from a card of
//     the process's own. A peer's own card falls silent when its process dies, and that silence
//     takes seconds to be detected.
//   - Only processes of the job can dial. The server's key is made of the job's token, which is in
//     the environment that funet run makes, or in the peers file. Without a token Open fails
//     (ErrNoToken), because any sender to the card could compute the key. The only encryption is
//     that of the card (funid's key); use TLS if that is not enough.
package socket
