package socket_test

// This file shows how programs use the package, as processes that funet run starts.
// tests/conformance runs the same against a lab.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// A web server on node 1, and a client of it on the others.
func Example_http() {
	s, err := socket.Open(context.Background(), socket.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if s.Node() == 1 {
		l, err := s.Listen("funet", ":80")
		if err != nil {
			log.Fatal(err)
		}
		log.Fatal(http.Serve(l, http.FileServer(http.Dir("."))))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context,
		_, address string) (net.Conn, error) {
		return s.DialContext(ctx, "funet", address)
	}}}
	r, err := client.Get("http://1:80/")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	fmt.Println(len(b), err)
}

// A service of gRPC on node 1, and a client of it on the others.
func Example_gRPC() {
	s, err := socket.Open(context.Background(), socket.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if s.Node() == 1 {
		l, err := s.Listen("funet", ":50051")
		if err != nil {
			log.Fatal(err)
		}
		g := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(g, health.NewServer())
		log.Fatal(g.Serve(l))
	}
	c, err := grpc.NewClient("passthrough:///1:50051", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return s.DialContext(ctx, "funet", address)
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	answer, err := grpc_health_v1.NewHealthClient(c).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
}

// Packets, which node 1 sends back.
func Example_packets() {
	s, err := socket.Open(context.Background(), socket.Options{})
	if err != nil {
		log.Fatal(err)
	}
	b := make([]byte, socket.MaxPacket)
	if s.Node() == 1 {
		p, err := s.ListenPacket("funet", ":7")
		for err == nil {
			var n int
			var from net.Addr
			if n, from, err = p.ReadFrom(b); err == nil {
				_, err = p.WriteTo(b[:n], from)
			}
		}
		log.Fatal(err)
	}
	p, err := s.ListenPacket("funet", ":0")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.WriteTo([]byte("hello"), socket.Addr{Node: 1, Port: 7}); err != nil {
		log.Fatal(err)
	}
	n, _, err := p.ReadFrom(b)
	fmt.Println(string(b[:n]), err)
}

// Calls beside connections: every node serves one, and calls the next node's.
func ExampleStack_Endpoint() {
	ctx := context.Background()
	s, err := socket.Open(ctx, socket.Options{Calls: true})
	if err != nil {
		log.Fatal(err)
	}
	e := s.Endpoint()
	err = errors.Join(e.Serve(1, func(m *funet.Message) ([]byte, error) {
		return fmt.Appendf(nil, "hello node %d", m.Source), nil
	}), e.Barrier(ctx)) // all nodes serve
	if err != nil {
		log.Fatal(err)
	}
	answer, err := e.Call(ctx, (e.Node()+1)%e.Nodes(), 1, nil)
	fmt.Println(string(answer), err)
}
