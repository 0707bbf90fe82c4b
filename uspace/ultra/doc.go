// Package ultra sends lines of up to seven words of 64 bits on paths, as ULTRA does (Froening's
// thesis, section 3.5): one store sends a line, one load receives it. A path leads from one process
// to another, in one direction. It is for pairs that exchange little at a time and often, such as
// control loops, market data and barriers; for all else messages, transfers and windows do better.
//
//	sender.go    OpenSender, Send, Flush, Close
//	receiver.go  OpenReceiver, Receive, Next, Close
//
// The journey of a line. The sender's process stores its words, then the control word, in memory
// that it shares with its card (funi/path.go). The card copies them behind a header that was made
// when the path was set up, and sends the packet. The receiver's card checks that it comes from the
// other end of the path, and stores the words in the slice of the packet's number. The receiver's
// process polls that slice. It receives in order, and no packet waits for an earlier one.
//
// The way of a path. Both processes open their end, in either order, with memory in a segment that
// has the right Keyed. Ends for one node are joined in the order in which they are opened there.
// Within five seconds both are open, or have ended. A path ends with either end: Sender.Close sends
// a last line, which the receiver gets as io.EOF. A process that ends without it, or a card that is
// gone, is noticed within seconds, and earlier if something is sent.
//
// Rules:
//   - Lines arrive once and in order. There is no order between two paths, or between a path and
//     other traffic.
//   - A line that Send has taken arrives, unless the path ends with an error (Error). Sender.Flush
//     returns when the receiver's card has all lines.
//   - 16 lines are in flight at most. The receiver's ring holds as many more as it has slices; then
//     Send returns false until the receiver has read. Only this path waits.
//   - Both kinds of ends belong to the goroutine that drives the card. Their waits end with the
//     error of the drive function.
//   - With a daemon's card, a process that waits for a line sleeps as in rma.Endpoint.Until.
package ultra
