// Package xdp is a small AF_XDP library. A network driver, or the kernel on its behalf, receives
// into user-space memory and sends from it; four rings pass its frames between kernel and program.
// The package follows Documentation/networking/af_xdp.rst of the kernel and uses its words. It
// needs Linux 5.9 (bpf_link for XDP). It tries everything that the kernel may refuse, and reports
// what it got (Socket.Info, Attachment.Mode, Probe); nothing falls back in silence.
//
// # The journey of a frame
//
// A UMEM is cut into frames. A frame is named by its byte offset, and is in one place at any time:
//
//	  free list (yours)
//	   |              ^  |                            ^
//	   | Fill.Set     |  | write bytes, Tx.Set        | Completion.At
//	   v              |  v                            |
//	fill ring       rx ring             tx ring      completion ring
//	   |              ^  |                            ^
//	   v              |  v Kick                       |
//	  kernel: waits --+ kernel: sends ----------------+
//	          for a frame
//
// Receiving: Fill gives free frames to the kernel. The program on the interface (Attach) redirects
// a packet to the socket that was registered in its XSKMAP (Register). The kernel puts the packet
// into a frame of the fill ring, behind Headroom + 256 bytes, and a Desc into the rx ring. Read it
// with Rx and UMEM.Data; release the entry; the frame is yours again.
//
// Sending: write into a frame of yours (UMEM.Frame), put a Desc into Tx, Kick. The
// frame is the kernel's until its address comes back in Completion. A received
// Desc can be sent as it is, so forwarding and echo copy nothing.
//
// A packet that is longer than the room of a frame has several descriptors
// (SocketConfig.MultiBuffer). In copy mode it still lies in one piece, if the UMEM is Unaligned and
// successive addresses given to the fill ring are RxRoom apart.
//
// # The rules
//
// A frame is yours to touch from taking it out of rx or completion until submitting it to fill or
// tx, and the kernel's at all other times. A frame may be in only one ring, once.
//
// Each ring has one producer and one consumer, and indices that both can read. The producer writes
// slots, then stores its index (release); the consumer loads that index (acquire), then reads the
// slots; and the other way round for slots that become free. Reserve and Peek look at the other
// side's index only when the copy from last time does not suffice, and Submit and Release store
// ours once a batch, so batches make a frame cost about 2 ns. Slots that Reserve offered and Submit
// did not take, or that Peek showed and Release did not return, are simply offered again.
//
// What the kernel or a program writes into shared memory is checked before use. Impossible indices
// make a ring full or empty. UMEM.Data and UMEM.Frame are nil for addresses outside. The rings of a
// closed socket are full and empty at once. Only a view of a UMEM that was kept beyond UMEM.Close
// faults.
//
// Every ring is bounded. Without a frame in fill, or room in rx, the kernel drops the packet and
// counts it (Statistics). Without room in tx, Reserve returns 0 and the frame stays yours. Without
// room in completion, nothing is sent and Kick returns ErrTxPending.
//
// One goroutine at a time uses a ring, Kick and WakeRx. A poll loop locks its OS
// thread, because Kick is a raw system call; and when it spins, it pins that thread
// (never the process) to a core that no other spinner has.
//
// Open, Attach and Probe look for the interface in the network namespace of the
// calling thread. What they return works from any thread.
//
// # The order
//
// Attach, then Open, then Register. A driver may have what a socket needs only while it runs a
// program, and Open must know whether the program is native. Put frames to receive into on the fill
// ring before the socket is bound (SocketConfig.Frames), because drivers take the receive buffers
// of a zero-copy queue from there at bind. A driver that finds none leaves the queue without any.
// That cuts the host off, as the kernel's own frames come through that queue, too. Afterwards
// WakeRx wakes a driver that found the ring empty.
//
// A driver may also round the room of a UMEM frame down to a size that its NIC knows (igb and igc,
// from 2048 - 256 to 1024 bytes). Then longer frames break, including all other frames on the
// interface. So a UMEM for zero-copy has frames of 4096 bytes.
//
// Close in the order socket, attachment, program, UMEM. A NIC sends zero-copy frames after Kick has
// returned, and loses those that it still has when the socket is closed. To be sure that the last
// ones leave, wait for their completions. When a process dies the kernel closes the same things,
// and nothing stays behind.
//
// # Example
//
//	umem, err := xdp.NewUMEM(xdp.UMEMConfig{FrameCount: 4096})
//	frames := ... // the addresses of 2048 frames: umem.Addr(0), umem.Addr(1), ...
//	prog, err := xdp.NewRedirectProgram(xdp.RedirectConfig{EtherType: 0x88B5, Queues: 1})
//	at, err := xdp.Attach(prog.Program, ifindex, xdp.AttachAuto)
//	config := xdp.SocketConfig{Interface: "eth0", UMEM: umem, Frames: frames, NeedWakeup: true}
//	s, err := xdp.Open(config)
//	err = s.Register(prog.Sockets, 0)
//	... then, on a locked thread:
//	for {
//		n := tx.Reserve(rx.Peek(32))
//		for i := range n {
//			d := rx.At(i)
//			turnAround(umem.Data(d)) // nil if d lies outside
//			tx.Set(i, d)
//		}
//		rx.Release(n)
//		tx.Submit(n)
//		err = s.Kick() // ErrTxPending: go on, kick again
//		n = fill.Reserve(completion.Peek(32))
//		for i := range n {
//			fill.Set(i, completion.At(i))
//		}
//		completion.Release(n)
//		fill.Submit(n)
//		err = s.WakeRx()
//	}
//
// # Which queue
//
// The NIC chooses the queue that a frame arrives on, by a hash of its addresses and ports where it
// knows the protocol (RSS). Where the driver has ntuple filters, Steer brings those of an EtherType
// or of a UDP port to one queue. Such a rule is the NIC's and outlives its process: Close removes
// it, and the next Steer finds what was left. A frame leaves on the queue of the socket that sends
// it.
//
// # What veth does
//
// Copy mode only, and every send needs a Kick, in which the receiver's program and copy also run:
// 1.2 us for one frame, 0.7 to 1 us for each in a batch, 32 a system call. A native program needs a
// peer MTU of at most about 3500 bytes, or RedirectConfig.Frags. Queues: a frame sent on queue q
// arrives on queue q of a peer with a native program; with a generic one, queue q > 0 arrives on
// q-1, so several queues need native mode. A receiver that stalls loses frames; there is no
// back-pressure. A frame above the MTU is completed as if it had been sent.
package xdp
