// Hello is the first program of the tutorial: every node greets the next one, which answers.
//
//	go build ./uspace/apps/tutorial/hello
//	bin/funet run -n 3 --lab -- ./hello
//
// It shows how a program takes its place in a job, serves calls, calls and leaves.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/funet/funet/uspace/funet"
)

// greet is the number of the handler of greetings, the same on every node.
const greet = 1

func main() {
	// The first Ctrl-C ends ctx, and with it whatever waits.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	// The environment, which funet run made, says which node of which job this process is.
	e, err := funet.Open(ctx, funet.Options{})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, e.Close(ctx)) }()

	// A handler runs on the node that is called. What it returns goes back to the caller, an error,
	// too.
	err = e.Serve(greet, func(m *funet.Message) ([]byte, error) {
		return fmt.Appendf(nil, "hello %s, this is node %d", m.Bytes, e.Node()), nil
	})
	if err != nil {
		return err
	}
	if err := e.Barrier(ctx); err != nil { // all nodes have their handlers
		return err
	}
	answer, err := e.Call(ctx, (e.Node()+1)%e.Nodes(), greet, fmt.Appendf(nil, "from node %d", e.Node()))
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", answer)
	return e.Barrier(ctx) // nobody leaves while another still calls it
}
