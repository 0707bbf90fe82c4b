package conformance

// This file is gRPC's benchmark service as a process: this program again, on the other host.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/benchmark"

	"github.com/funet/funet/uspace/socket"
)

// serviceVariable makes the test binary a service: it says where, in JSON.
const serviceVariable = "FUNET_TEST_SERVICE"

// service is where it serves.
type service struct {
	TCP string // the address; "": over FUNet
	At  place
}

func TestMain(m *testing.M) {
	at := os.Getenv(serviceVariable)
	if at == "" {
		os.Exit(m.Run())
	}
	if err := runService(at); err != nil {
		fmt.Fprintln(os.Stderr, "the service:", err)
		os.Exit(1)
	}
}

// runService says its address, and serves until the end of standard input.
func runService(at string) error {
	var s service
	if err := json.Unmarshal([]byte(at), &s); err != nil {
		return err
	}
	listen := func() (net.Listener, error) { return net.Listen("tcp", s.TCP) }
	if s.TCP == "" {
		o, err := s.At.options()
		if err != nil {
			return err
		}
		stack, err := socket.Open(context.Background(), o)
		if err != nil {
			return err
		}
		defer stack.Close(0)
		listen = func() (net.Listener, error) { return stack.Listen(socket.Network, ":0") }
	}
	l, err := listen()
	if err != nil {
		return err
	}
	defer benchmark.StartServer(benchmark.ServerInfo{Type: "protobuf", Listener: l})()
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serve starts the service on host 1 and returns its address.
func (b *bed) serve(w way) string {
	t := b.t
	t.Helper()
	s := service{TCP: w.tcp, At: b.nodes[1]}
	at, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := b.lab.Command(1, "/proc/self/exe")
	cmd.Env = append(os.Environ(), serviceVariable+"="+string(at))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = b.lab.Start(1, cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := await(t, "the service ends", goWait(cmd.Wait)); err != nil {
			t.Error("the service: ", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the service ended: ", err)
	}
	return strings.TrimSpace(line)
}

// goWait waits in a goroutine.
func goWait(wait func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	return ended
}
