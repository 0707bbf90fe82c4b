package funet

// This file measures a look in vain: what a goroutine that waits does over and over, and with it
// how soon it gives way to who shares its processor.

import (
	"context"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
)

// still is a carrier to which nothing comes.
type still struct {
	Carrier
	iface *funi.Interface
}

func (s still) Interface() *funi.Interface { return s.iface }
func (still) Drive()                       {}
func (still) Interrupt()                   {}
func (still) Err() error                   { return nil }
func (still) Now() int64                   { return 0 }
func (still) Close(time.Duration) error    { return nil }

func BenchmarkVain(b *testing.B) {
	memory, err := funi.NewMemory(1024)
	if err != nil {
		b.Fatal(err)
	}
	iface, err := funi.Initialize(memory)
	if err != nil {
		b.Fatal(err)
	}
	e, err := newEndpoint(still{iface: iface}, lead.New(still{}), 0, 2, func(error) {}, nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	if err := e.Wait(context.Background(), func() bool { n++; return n > b.N }); err != nil {
		b.Fatal(err)
	}
}
