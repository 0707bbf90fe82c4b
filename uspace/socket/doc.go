// Package socket is Go's network interface over FUNet: net.Conn, net.Listener, net.PacketConn, a
// Dialer and calls between the processes of a job. So net/http, gRPC and what stands on them run
// over the card unmodified, and unprivileged where the card is a daemon's.
//
//	s, err := socket.Open(ctx, socket.Options{}) // this process's place in the job
//	l, err := s.Listen("funet", ":80")           // every node can dial it as NODE:80
//	go http.Serve(l, handler)
//	...
//	c, err := s.DialContext(ctx, "funet", "3:80")
//
// The journey of a byte. Write copies it into memory that the card sends from (package rats,
// Stream), in one packet if it is few bytes. The receiver's card writes it into the ring of memory
// that the connection has there, in whatever order packets come, and puts a record into the
// process's notification ring when a message is whole. The goroutine that waits in Read sees that,
// and copies it out. A connection is two Streams, one each way; a dialer sends an initial request
// with the seeds of both to the node's server, and that makes the other ends (dial.go).
//
// Who drives the card: whoever waits, for 50 us. After that one goroutine sleeps for all
// (drive.go). So the answer of a peer that answers at once is seen without a change of goroutines,
// and a process that waits for nothing takes no time. Whoever has the lead gives way to goroutines
// for whom something has happened, and to those that want to call.
//
// Rules:
//
//   - An address is NODE:PORT, of network "funet"; ":PORT" or an empty node is this one, port 0
//     picks a port.
//   - Everything may be called from any goroutine. Deadlines act on calls that wait.
//   - A dial or a call to a port that nobody has yet is refused, as TCP does; Ready waits for it,
//     and for a node's process that has yet to open its Stack.
//   - Back-pressure: a connection begins with a ring of 16 KiB, and one of twice that while its
//     writer waits, up to 1 MiB, all in the memory of Options. A reader that stalls holds its own
//     ring and nothing else. Connections to a node send up to 32 KiB each in turn.
//   - Packets (ListenPacket) come whole and once, in any order, up to MaxPacket bytes. WriteTo
//     waits for a reader that stalls, until its deadline: nothing is lost that a datagram of UDP
//     would lose.
//   - Calls (Serve, Call) carry up to MaxCall bytes each way. A call runs once or, if it fails, at
//     most once.
//   - Errors are TCP's, in a *net.OpError: io.EOF, EPIPE, ECONNRESET, ECONNREFUSED, EHOSTUNREACH,
//     ETIMEDOUT, and net.ErrClosed.
//   - Close returns at once. What was written is delivered in the background, for at most 10 s.
//   - A peer that dies is found out by what is sent to it, and by a probe per node, not per
//     connection. The probe goes twice a second through a daemon, and each 0.8 s from a card of its
//     own. The silence of a peer's own card takes seconds to be missed.
//   - Nobody outside the job can dial: its key is made of the job's token, which is in the
//     environment that funet run makes, or in the peers file. Without a token Open fails
//     (ErrNoToken), because any sender to the card could work the key out. There is no encryption
//     but that of the card (funid's key); use TLS where that is not enough.
package socket
