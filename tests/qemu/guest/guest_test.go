package guest

// This file tests what a guest does, on this machine: the rig's orders, and the stream.

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An output that is longer than what is kept has its beginning and its end, and says how much is
// missing.
func TestLongOutput(t *testing.T) {
	var k kept
	for range 3 {
		if n, err := k.Write([]byte(strings.Repeat("a", mostOutput/4))); n != mostOutput/4 || err != nil {
			t.Fatal(n, err)
		}
	}
	if text := k.text(); text != strings.Repeat("a", 3*mostOutput/4) {
		t.Errorf("%d bytes of a short output", len(text))
	}
	for range 1000 {
		if _, err := k.Write([]byte(strings.Repeat("b", 1000))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	text := k.text()
	if !strings.HasPrefix(text, "aaa") || !strings.HasSuffix(text, "bbbend") || len(text) > mostOutput+100 ||
		!strings.Contains(text, "[983619 bytes left out]") { // 3/4 and 1000003 bytes came
		t.Errorf("%d bytes: %.20q ... %.40q", len(text), text, text[mostOutput/2:])
	}
}

// An order's end has the exit code, or 128 and a signal's number, and both outputs; what does not
// end in time is killed with its children; what cannot be started says why.
func TestOrders(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	rig := os.NewFile(uintptr(ends[0]), "rig")
	defer rig.Close()
	a := &agent{port: os.NewFile(uintptr(ends[1]), "guest"), running: map[int]*os.Process{}}
	served := make(chan struct{})
	go func() { a.serve(); close(served) }()
	words := json.NewDecoder(bufio.NewReader(rig))
	tell := func(o Order) {
		t.Helper()
		if err := json.NewEncoder(rig).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(o Order) Ended {
		t.Helper()
		tell(o)
		var w Word
		if err := words.Decode(&w); err != nil || w.Ended == nil || w.Ended.ID != o.ID {
			t.Fatalf("%v: %+v", err, w)
		}
		return *w.Ended
	}
	const patience = time.Minute
	script := func(id int, timeout time.Duration, text string) Order {
		return Order{ID: id, Start: &StartOrder{Args: []string{"sh", "-c", text}, Timeout: timeout}}
	}
	if e := ask(script(1, patience, "echo out; echo err >&2; exit 3")); e.Code != 3 || e.Stdout != "out\n" ||
		e.Stderr != "err\n" || e.Error != "" {
		t.Errorf("%+v", e)
	}
	if e := ask(script(2, patience, "kill -TERM $$")); e.Code != 128+15 {
		t.Errorf("%+v", e)
	}
	if e := ask(script(3, 50*time.Millisecond, "sleep 1000 & wait")); e.Code != 128+9 ||
		!strings.Contains(e.Error, "did not end within 50ms") {
		t.Errorf("%+v", e)
	}
	if e := ask(Order{ID: 4, Start: &StartOrder{Args: []string{"/nowhere"}, Timeout: patience}}); e.Code != 127 ||
		e.Error == "" {
		t.Errorf("%+v", e)
	}
	// A signal reaches the process that it names. The process says through a FIFO that it is ready.
	ready := t.TempDir() + "/ready"
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	// for writing too, so that it does not end before the process begins
	fifo, err := os.OpenFile(ready, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	tell(script(5, patience, "trap 'exit 7' INT; echo >"+ready+"; while :; do sleep 0.01; done"))
	if err := fifo.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := fifo.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the process does not begin: %v", err)
	}
	if e := ask(Order{ID: 5, Kill: &SignalOrder{Signal: 2}}); e.Code != 7 {
		t.Errorf("%+v", e)
	}
	tell(Order{ID: 99, Kill: &SignalOrder{Signal: 9}}) // nobody
	rig.Close()
	<-served // without the rig there is nothing to do
}

// What is reported of a stream is the receiver's count.
func TestStream(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = take(l) }() // until it is closed
	r, err := send(l.Addr().String(), 20*time.Millisecond)
	if err != nil || r.Bytes == 0 || r.Seconds <= 0 || r.Rate != float64(r.Bytes)/1e6/r.Seconds {
		t.Errorf("%+v, %v", r, err)
	}
}

// A receiver that is not there, or that goes away, is an error and no rate of zero.
func TestStreamFails(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
		l.Close()
	}()
	if r, err := send(l.Addr().String(), time.Second); err == nil {
		t.Errorf("%+v", r)
	}
	if r, err := send(l.Addr().String(), time.Second); err == nil {
		t.Errorf("%+v", r)
	}
}
