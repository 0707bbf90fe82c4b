package engine

// This file carries out operations on elements. Each element is changed at once, by an instruction
// that locks it. So the change is one access for other cards' threads, and for the process that
// owns the memory, which uses the atomics of C11 or Go on it (Tokyo, section 2.2.2). That section
// leaves open which operations there are.
//
// Most operations are one instruction of the processor. The others are compare-and-swap loops of 16
// tries: operations on elements of 8 and 16 bits, arithmetic on floats, bitwise operations,
// minimum, maximum, products, and swaps under a condition. The tries are bounded because a process
// that writes there all the time must not hold the card. An operation that is a loop has one
// element. So when all tries fail, nothing has been done.

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
)

// swapTries is how many times a loop tries to swap an element that others keep changing.
const swapTries = 16

// operable returns why the card cannot carry out an operation on the elements in memory, or
// ReasonNone. The elements lie in a window.
func operable(q *arctic.WindowRequest, memory, window []byte) arctic.Reason {
	size := q.Element.Size()
	if size == 0 || len(memory) == 0 || len(memory)%size != 0 || len(memory)/size > arctic.MaxElements {
		return arctic.ReasonOperation
	}
	float := q.Element == arctic.Float32 || q.Element == arctic.Float64
	switch q.Operation {
	case arctic.RemoteAnd, arctic.RemoteOr, arctic.RemoteXor, arctic.RemoteMaskedSwap:
		if float {
			return arctic.ReasonOperation
		}
	case arctic.RemoteRead:
		if q.Fetch {
			return arctic.ReasonOperation
		}
	}
	if len(memory) > size && (size < 4 || float || loops(q.Operation)) {
		return arctic.ReasonOperation
	}
	at := uintptr(unsafe.Pointer(&memory[0]))
	if at%uintptr(size) != 0 {
		return arctic.ReasonAlignment
	}
	if size < 4 { // the word around it is what is swapped
		first := uintptr(unsafe.Pointer(&window[0]))
		if word := at &^ 3; word < first || word+4 > first+uintptr(len(window)) {
			return arctic.ReasonAlignment
		}
	}
	return arctic.ReasonNone
}

// loops reports whether an operation on integers of 32 or 64 bits is a loop.
func loops(op arctic.Operation) bool {
	switch op {
	case arctic.RemoteWrite, arctic.RemoteRead, arctic.RemoteAdd, arctic.RemoteSwap:
		return false
	}
	return true
}

// perform carries out an operation on elements and writes their former values to old. It returns
// false if the only element changed during each try: then nothing was done.
func perform(q *arctic.WindowRequest, memory, old []byte) bool {
	size := q.Element.Size()
	second := q.Operands[len(q.Operands)/2:] // of a compare-and-swap and a masked swap
	for at := 0; at < len(memory); at += size {
		var a, b uint64
		if q.Operation != arctic.RemoteRead {
			a = number(q.Operands[at:], size)
		}
		if q.Operation == arctic.RemoteCompareSwap || q.Operation == arctic.RemoteMaskedSwap {
			b = number(second[at:], size)
		}
		was, ok := change(q.Operation, q.Element, unsafe.Pointer(&memory[at]), a, b)
		if !ok {
			return false
		}
		switch size {
		case 1:
			old[at] = byte(was)
		case 2:
			binary.LittleEndian.PutUint16(old[at:], uint16(was))
		case 4:
			binary.LittleEndian.PutUint32(old[at:], uint32(was))
		default:
			binary.LittleEndian.PutUint64(old[at:], was)
		}
	}
	return true
}

// number reads an operand.
func number(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// change carries out an operation on an element and returns its former value, or false after 16
// tries.
func change(op arctic.Operation, e arctic.Element, p unsafe.Pointer, a, b uint64) (was uint64, ok bool) {
	switch size := e.Size(); size {
	case 4:
		return change32(op, e, (*uint32)(p), uint32(a), uint32(b))
	case 8:
		return change64(op, e, (*uint64)(p), a, b)
	default:
		return changePart(op, e, p, size, a, b)
	}
}

func change32(op arctic.Operation, e arctic.Element, p *uint32, a, b uint32) (was uint64, ok bool) {
	switch {
	case op == arctic.RemoteRead:
		return uint64(atomic.LoadUint32(p)), true
	case op == arctic.RemoteSwap || op == arctic.RemoteWrite:
		return uint64(atomic.SwapUint32(p, a)), true
	case op == arctic.RemoteAdd && e != arctic.Float32:
		return uint64(atomic.AddUint32(p, a) - a), true
	}
	for range swapTries {
		old := atomic.LoadUint32(p)
		changed, differs := result(op, e, uint64(old), uint64(a), uint64(b))
		if differs || atomic.CompareAndSwapUint32(p, old, uint32(changed)) {
			return uint64(old), true
		}
	}
	return 0, false
}

func change64(op arctic.Operation, e arctic.Element, p *uint64, a, b uint64) (was uint64, ok bool) {
	switch {
	case op == arctic.RemoteRead:
		return atomic.LoadUint64(p), true
	case op == arctic.RemoteSwap || op == arctic.RemoteWrite:
		return atomic.SwapUint64(p, a), true
	case op == arctic.RemoteAdd && e != arctic.Float64:
		return atomic.AddUint64(p, a) - a, true
	}
	for range swapTries {
		old := atomic.LoadUint64(p)
		changed, differs := result(op, e, old, a, b)
		if differs || atomic.CompareAndSwapUint64(p, old, changed) {
			return old, true
		}
	}
	return 0, false
}

// changePart changes an element of 8 or 16 bits in the word that it is part of.
func changePart(op arctic.Operation, e arctic.Element, p unsafe.Pointer, size int, a, b uint64) (was uint64, ok bool) {
	inWord := uintptr(p) & 3
	word := (*uint32)(unsafe.Add(p, -int(inWord)))
	shift, mask := inWord*8, uint32(1)<<(size*8)-1
	for range swapTries {
		all := atomic.LoadUint32(word)
		old := uint64(all >> shift & mask)
		if op == arctic.RemoteRead {
			return old, true
		}
		changed, differs := result(op, e, old, a, b)
		if differs || atomic.CompareAndSwapUint32(word, all, all&^(mask<<shift)|uint32(changed)&mask<<shift) {
			return old, true
		}
	}
	return 0, false
}

// result returns the new value of an element, or that a compare-and-swap found another value than
// it was to replace.
func result(op arctic.Operation, e arctic.Element, old, a, b uint64) (changed uint64, differs bool) {
	switch op {
	case arctic.RemoteWrite, arctic.RemoteSwap:
		return a, false
	case arctic.RemoteAnd:
		return old & a, false
	case arctic.RemoteOr:
		return old | a, false
	case arctic.RemoteXor:
		return old ^ a, false
	case arctic.RemoteMaskedSwap:
		return old&^b | a&b, false
	case arctic.RemoteCompareSwap:
		return b, old != a
	}
	switch e {
	case arctic.Float32:
		return uint64(math.Float32bits(arithmetic(op, math.Float32frombits(uint32(old)),
			math.Float32frombits(uint32(a))))), false
	case arctic.Float64:
		return math.Float64bits(arithmetic(op, math.Float64frombits(old), math.Float64frombits(a))), false
	case arctic.Int8:
		return uint64(uint8(arithmetic(op, int8(old), int8(a)))), false
	case arctic.Int16:
		return uint64(uint16(arithmetic(op, int16(old), int16(a)))), false
	case arctic.Int32:
		return uint64(uint32(arithmetic(op, int32(old), int32(a)))), false
	case arctic.Int64:
		return uint64(arithmetic(op, int64(old), int64(a))), false
	}
	return arithmetic(op, old, a), false // the bits above the element's are left out
}

// arithmetic returns the result of an operation that depends on how numbers are represented.
func arithmetic[T int8 | int16 | int32 | int64 | uint64 | float32 | float64](op arctic.Operation, old, a T) T {
	switch op {
	case arctic.RemoteAdd:
		return old + a
	case arctic.RemoteProd:
		return old * a
	case arctic.RemoteMin:
		return min(old, a)
	default:
		return max(old, a)
	}
}

// signalWord sets the 64 bits of a signal, or adds to them. It comes after the data that the signal
// announces.
func signalWord(b []byte, add bool, v uint64) {
	p := (*uint64)(unsafe.Pointer(&b[0]))
	if add {
		atomic.AddUint64(p, v)
	} else {
		atomic.StoreUint64(p, v)
	}
}
