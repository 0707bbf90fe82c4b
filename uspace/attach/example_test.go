package attach_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
)

// stage holds what an example gives the daemon of these tests instead of a test.
type stage struct {
	testing.TB
	cleanups []func()
}

func (s *stage) Helper()                   {}
func (s *stage) Cleanup(f func())          { s.cleanups = append(s.cleanups, f) }
func (s *stage) Error(a ...any)            { fmt.Println(a...) }
func (s *stage) Errorf(f string, a ...any) { fmt.Printf(f+"\n", a...) }
func (s *stage) Fatal(a ...any)            { panic(fmt.Sprintln(a...)) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "attach")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *stage) end() {
	for i := range s.cleanups {
		s.cleanups[len(s.cleanups)-1-i]()
	}
}

// A process attaches to the card of a daemon, funid. `funet run` says in the environment where the
// daemon listens, and which place in which group the process has.
func Example() {
	var s stage
	defer s.end()
	place := attach.Config{Socket: start(&s, "").path, GID: gid, Node: 0, Token: token}
	for name, value := range map[string]string{attach.SocketVariable: place.Socket, attach.GIDVariable: "5",
		attach.NodeVariable: "0", attach.TokenVariable: token.Text()} {
		os.Setenv(name, value) // as funet run does
		defer os.Unsetenv(name)
	}

	c, err := attach.Environment()
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := attach.Open(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := am.New(k.Interface(), int(c.Node), k.Nodes(), k.Drive, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	got := 0
	if err := e.Handle(0, func(m *am.Message) { got = int(m.Words[0]) }); err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Request4(e.Node(), 0, 42, 0, 0, 0); err != nil { // to itself, by way of the card
		fmt.Println(err)
		return
	}
	if err := e.Wait(func() bool { return got != 0 }); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("node", e.Node(), "of", e.Nodes(), "got", got)
	if err := k.Close(time.Second); err != nil {
		fmt.Println(err)
	}
	// Output: node 0 of 8 got 42
}
