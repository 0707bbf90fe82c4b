package main

// This file opens and closes endpoints.

// #cgo CFLAGS: -I${SRCDIR}/../guest -ftls-model=initial-exec
// #include <stdlib.h>
// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"strings"
	"unsafe"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/guest"
)

// options are a struct funet_options, with pointers as numbers.
type options struct {
	peers, interfaces uintptr
	node, nodes       uint32
	memory            int64
	rejoin            uint32
	windows           uint32
	notifications     uint32
	zero              uint32
	failed, argument  uintptr
}

var _ [C.sizeof_struct_funet_options]byte = [unsafe.Sizeof(options{})]byte{}

// text returns a string of C; address 0 is "".
func text(address uintptr) (string, error) {
	if address == 0 {
		return "", nil
	}
	if err := check(address, 1, 1); err != nil {
		return "", err
	}
	return C.GoString((*C.char)(at(address))), nil
}

//export libfunet_open
func libfunet_open(to, given uintptr, milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err == nil {
		err = open(ctx, to, given)
	}
	return tell(err)
}

func open(ctx context.Context, to, given uintptr) error {
	if err := check(to, 8, 8); err != nil {
		return err
	}
	o, err := placed(given)
	if err != nil {
		return err
	}
	guest.Settle()
	e, err := funet.Open(ctx, o)
	if err != nil {
		return err
	}
	x := &endpoint{Endpoint: e}
	if o.Remote.KeySlots > 0 {
		err = x.windows.open(e)
	}
	if err == nil {
		if x.handle = endpoints.put(x); x.handle == 0 {
			err = errFull
		}
	}
	if err != nil {
		return errors.Join(err, e.Close(ended))
	}
	x.watched()
	C.libfunet_place(C.uint32_t(index(x.handle)), C.uintptr_t(x.handle), C.uint32_t(e.Node()), C.uint32_t(e.Nodes()))
	return store(to, x.handle)
}

// placed returns the options of package funet, with the place that the environment gives.
func placed(given uintptr) (o funet.Options, err error) {
	var g options
	if given != 0 {
		a, err := array[options](given, 1)
		if err != nil {
			return o, err
		}
		g = a[0]
	}
	if g.failed != 0 {
		o.OnError = func(err error) { failed(g.failed, g.argument, err) }
	}
	o.Node, o.Nodes, o.Memory, o.Rejoin = int(g.node), int(g.nodes), int(g.memory), g.rejoin != 0
	if o.Remote, err = sizes(g.windows, g.notifications); err != nil {
		return o, err
	}
	if o.Peers, err = text(g.peers); err != nil {
		return o, err
	}
	interfaces, err := text(g.interfaces)
	if err != nil {
		return o, err
	}
	if interfaces != "" {
		o.Interfaces = strings.Split(interfaces, ",")
	}
	if guest.Getenv(attach.GIDVariable) != "" {
		place, err := attach.EnvironmentOf(guest.Getenv)
		if err != nil {
			return o, err
		}
		o.Attach = &place
	}
	return o, nil
}

// failed runs the program's function for errors that belong to no call.
func failed(function, argument uintptr, err error) {
	code, _ := codeOf(err)
	text := line(err.Error())
	C.libfunet_failed(C.uintptr_t(function), C.uintptr_t(argument), code,
		(*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
}

//export libfunet_close
func libfunet_close(handle uintptr, milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err != nil {
		return tell(err)
	}
	err = e.Close(ctx)
	if code = tell(err); errors.Is(err, funet.ErrHandler) || errors.Is(err, funet.ErrClosed) {
		return code // the place is still held, or another thread gives it back
	}
	C.libfunet_place(C.uint32_t(index(handle)), 0, 0, 0)
	endpoints.remove(handle)
	paths.removeAll(func(p *path) bool { return p.e == e })
	for _, r := range e.running[:cap(e.running)] {
		C.free(unsafe.Pointer(r.short))
	}
	e.windows.release()
	return code
}
