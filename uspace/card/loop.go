package card

// This file is a card in an event loop: it has a descriptor that is readable when the card has to
// run, for epoll(7) or Go's runtime, instead of a sleep in Drive.
//
// The descriptor is an epoll instance of its own. It follows the sockets, a timer at the time when
// the engine next wants to run, and the eventfd of Interrupt.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
)

// busyWithout bounds the engine's progress after Disarm for which the epoll instance still follows
// the sockets. Beyond it the instance leaves them until the next Arm. While it follows them, the
// kernel calls the instance, and all that follow it, for each frame that comes, on the sender's
// processor. To leave and join again costs less than that for so many frames, and a dialogue with
// sleeps in between has fewer.
const busyWithout = 64

// shortest is the shortest sleep, in nanoseconds. A shorter one would cost more than it saves. A
// card that owes an acknowledgment, for example, sends it first.
const shortest = 60_000

// loop is the descriptor. The zero value has none.
type loop struct {
	made         bool
	epoll, timer int
	watched      []int32
	armed        bool   // between Arm and Disarm
	out          bool   // the instance does not follow watched now
	at           uint64 // the engine's progress at Disarm
	ticks        bool   // the timer is set
	err          error  // a descriptor could not be added; Arm then refuses, and the program polls
}

// Fd returns a descriptor that is readable while Arm is in force and the card has something to do:
// something has come, a timer of the engine has expired, or Interrupt was called. Poll it, also
// with an epoll instance, but do not read it. It is the card's until Close. On a card of a modelled
// machine Arm is never in force.
func (k *Card) Fd() (int, error) {
	if k.loop.made {
		return k.loop.epoll, nil
	}
	if err := k.loop.make(); err != nil {
		return -1, fmt.Errorf("making a descriptor for event loops: %w", err)
	}
	k.loop.watch(k.sockfds)
	return k.loop.epoll, nil
}

// Arm readies the descriptor of Fd, and returns true if the program may wait for it. It returns
// false if there is something to do first: call Drive, look into the queues, and try again. The
// next call of Drive or Disarm cancels Arm.
//
//	for {
//		drive, and handle what has come, until nothing comes
//		if k.Arm() {
//			wait until the descriptor is readable
//			k.Disarm()
//		}
//	}
//
// Arm belongs to the card's goroutine, as Drive does; the wait does not.
func (k *Card) Arm() bool {
	if k.modelled != nil || k.loop.err != nil {
		return false
	}
	k.relief.take()
	if k.arm() {
		return true // and has the card until it drives again: it sleeps
	}
	k.relief.give()
	return false
}

func (k *Card) arm() bool {
	if !k.alarm.Arm() {
		return false
	}
	k.loop.join()
	k.engine.Retime()
	// Timers may be due, and what waited for room in the receive queues has it now.
	k.now, k.heads = k.wall(), k.iface.Heads()
	k.next = k.engine.Step(k.now)
	if k.hello != nil && k.hello.Due <= k.now {
		k.sayHello()
	}
	asked := k.asked.Load()
	if asked {
		k.attend()
	}
	k.leftover = k.next <= k.now
	p := k.engine.Progress()
	moved := p != k.progress
	k.progress = p
	k.wait.Found() // who waits here does not wait in Drive
	next := k.next
	if k.hello != nil {
		next = min(next, k.hello.Due)
	}
	if moved || asked || next-k.now < shortest || k.iface.Waiting() || !k.neighbours.doze() {
		k.disarm()
		return false
	}
	k.loop.wakeAt(next, k.now)
	k.loop.armed = true
	return true
}

// Disarm cancels Arm. It belongs to the card's goroutine.
func (k *Card) Disarm() {
	k.relief.take()
	k.disarm()
	k.relief.give()
}

func (k *Card) disarm() {
	k.alarm.Disarm()
	k.neighbours.wake()
	k.loop.wakeAt(engine.Never, 0)
	k.loop.armed, k.loop.at = false, k.progress
}

func (l *loop) make() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return errors.Join(err, unix.Close(l.epoll))
	}
	l.made = true
	l.add(int32(l.timer))
	return nil
}

// watch has the descriptor follow the given descriptors instead of those before.
func (l *loop) watch(fds []unix.PollFd) {
	if !l.made {
		return
	}
	l.leave()
	l.watched = l.watched[:0]
	for _, f := range fds {
		l.watched = append(l.watched, f.Fd)
	}
	l.join()
}

// leave has the descriptor follow nothing but its timer.
func (l *loop) leave() {
	if l.out {
		return
	}
	for _, fd := range l.watched {
		// that of a closed socket is out already
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, int(fd), nil)
	}
	l.out = true
}

// join has the descriptor follow the watched ones again.
func (l *loop) join() {
	if !l.out {
		return
	}
	for _, fd := range l.watched {
		l.add(fd)
	}
	l.out = false
}

func (l *loop) add(fd int32) {
	err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: fd})
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("adding a descriptor to an epoll instance: %w", err)
	}
}

// wakeAt sets the timer to a time of the card's clock.
func (l *loop) wakeAt(at, now int64) {
	if !l.made || at == engine.Never && !l.ticks {
		return
	}
	var t unix.ItimerSpec // 0: no time
	if l.ticks = at != engine.Never; l.ticks {
		t.Value = unix.NsecToTimespec(max(at-now, 1))
	}
	if err := unix.TimerfdSettime(l.timer, 0, &t, nil); err != nil && l.err == nil {
		l.err = fmt.Errorf("setting a timer: %w", err)
	}
}

func (l *loop) close() error {
	if !l.made {
		return nil
	}
	l.made = false
	return errors.Join(unix.Close(l.timer), unix.Close(l.epoll))
}
