// Ring is the second program of the tutorial: a token goes round the nodes of a job, and each adds
// its number to it. It is sent with tags, as in MPI, and at the end all agree about what it cost.
//
//	go build ./uspace/apps/tutorial/ring
//	bin/funet run -n 4 --lab -- ./ring --laps 1000
//
// It shows messages that a program waits for in its own order, deadlines, a node that is gone, and
// a sum of all nodes.
package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// token is the tag of the token's messages.
const token = 7

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	laps := flag.Int("laps", 100, "how often the token goes round")
	patience := flag.Duration("patience", time.Minute, "how long that may take")
	flag.Parse()
	e, err := funet.Open(ctx, funet.Options{})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.Close(ctx)) }()

	// A deadline holds for everything that waits, and is an error like any other.
	within, cancel := context.WithTimeoutCause(ctx, *patience,
		fmt.Errorf("the token has not come back within %v", *patience))
	defer cancel()
	// a message to a node that is not there yet comes back
	if err := e.Barrier(within); err != nil {
		return err
	}
	return goRound(within, e, *laps)
}

// goRound is the program of each node, on an open endpoint.
func goRound(ctx context.Context, e *funet.Endpoint, laps int) (err error) {
	begin, waited := time.Now(), time.Duration(0)
	sum := uint64(0)
	for lap := range laps {
		if e.Node() != 0 || lap > 0 {
			if sum, err = receive(ctx, e, &waited); err != nil {
				return err
			}
		}
		b := binary.LittleEndian.AppendUint64(nil, sum+uint64(e.Node()))
		if err := e.SendTag(ctx, (e.Node()+1)%e.Nodes(), token, b); err != nil {
			return err
		}
	}
	if e.Node() == 0 { // where it began it ends
		if sum, err = receive(ctx, e, &waited); err != nil {
			return err
		}
	}
	// Each node has a part, and all have the sum afterwards.
	all := []float64{waited.Seconds()}
	if err := funet.AllReduce(ctx, e, am.Sum, all); err != nil {
		return err
	}
	if n := uint64(e.Nodes()); e.Node() == 0 {
		if want := uint64(laps) * n * (n - 1) / 2; sum != want {
			return fmt.Errorf("the token has %d, not %d", sum, want)
		}
		hop := time.Since(begin) / time.Duration(laps*e.Nodes())
		fmt.Printf("%d laps over %d nodes, %v each; all nodes together waited %.3f s\n", laps, n,
			hop.Round(10*time.Nanosecond), all[0])
	}
	return e.Barrier(ctx)
}

// receive waits for the token. A node that is gone ends the wait: funet sees that, and the error
// says which.
func receive(ctx context.Context, e *funet.Endpoint, waited *time.Duration) (uint64, error) {
	var b [8]byte
	begin := time.Now()
	from := (e.Node() + e.Nodes() - 1) % e.Nodes()
	got, err := e.Recv(ctx, from, token, b[:])
	*waited += time.Since(begin)
	var gone *am.Undelivered
	if errors.As(err, &gone) {
		return 0, fmt.Errorf("node %d, which had the token, is gone: %w", from, err)
	}
	if err == nil && got.Bytes != len(b) {
		err = fmt.Errorf("node %d sent a token of %d bytes", from, got.Bytes)
	}
	return binary.LittleEndian.Uint64(b[:]), err
}
