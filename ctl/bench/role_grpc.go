package bench

// This file is grpc: unary calls of gRPC over one TCP connection, as a separate program would make
// them. The runtime runs goroutines, timers and collections on any processor, and nothing spins.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/funet/funet/ctl/rawxdp"
)

const (
	roleGRPC = "grpc"
	// echoMethod is the only method: it takes a BytesValue and returns the same.
	echoMethod = "/funet.Bench/Echo"
)

// openGRPC opens an end: a server, or a client without a connection yet.
func openGRPC(c roleConfig) (end, error) {
	for _, address := range []string{c.Local, c.Remote} {
		if _, err := sockaddr(address); err != nil {
			return nil, err
		}
	}
	if !c.Server {
		conn, err := grpc.NewClient("passthrough:///"+c.Remote,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		if err != nil {
			return nil, fmt.Errorf("make a client of %s: %w", c.Remote, err)
		}
		return exchange{&grpcClient{conn: conn, in: &wrapperspb.BytesValue{Value: make([]byte, payload)}}, c}, nil
	}
	l, err := net.Listen("tcp4", c.Local)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", c.Local, err)
	}
	s := &grpcServer{server: grpc.NewServer(), all: make(chan struct{}), ended: make(chan error, 1)}
	left := new(atomic.Int64)
	left.Store(int64(1 + c.Warmup + c.Exchanges)) // connect calls once
	// What protoc would make of a service with one method.
	s.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "funet.Bench",
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(_ any, _ context.Context, decode func(any) error,
				_ grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				if err := decode(in); err != nil {
					return nil, err
				}
				if left.Add(-1) == 0 {
					close(s.all)
				}
				return in, nil
			},
		}},
	}, nil)
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// grpcServer is the end that answers, in gRPC's goroutines, as soon as it is open.
type grpcServer struct {
	server *grpc.Server
	all    chan struct{} // closed when all calls of a turn have arrived
	ended  chan error    // what Serve returned
}

// run returns when all calls have arrived. The parent ends a server whose client has failed.
func (s *grpcServer) run() (any, error) {
	<-s.all
	return outcome{}, nil
}

// Close returns when the last answer has left and the server has ended.
func (s *grpcServer) Close() error {
	s.server.GracefulStop()
	return <-s.ended
}

// grpcClient is the end that asks.
type grpcClient struct {
	conn    *grpc.ClientConn
	in, out *wrapperspb.BytesValue
}

// connect makes one call, which opens the connection.
func (l *grpcClient) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), rawxdp.Patience)
	defer cancel()
	return l.call(ctx, 0)
}

func (l *grpcClient) Ask(number uint64) error { return l.call(context.Background(), number) }

func (l *grpcClient) call(ctx context.Context, number uint64) error {
	binary.LittleEndian.PutUint64(l.in.Value, number)
	l.out = new(wrapperspb.BytesValue)
	if err := l.conn.Invoke(ctx, echoMethod, l.in, l.out, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("call the server: %w", err)
	}
	if len(l.out.Value) != payload {
		return fmt.Errorf("%d bytes came back", len(l.out.Value))
	}
	if got := binary.LittleEndian.Uint64(l.out.Value); got != number {
		return fmt.Errorf("message %d came back instead", got)
	}
	return nil
}

func (l *grpcClient) Answer() error     { return errors.ErrUnsupported } // a server is a grpcServer
func (l *grpcClient) Got() rawxdp.Modes { return rawxdp.Modes{} }
func (l *grpcClient) Close() error      { return l.conn.Close() }
