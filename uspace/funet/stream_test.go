package funet_test

// This file tests streams between two nodes on real cards.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// streamed is n bytes of a stream.
func streamed(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// Rule: what is written is read, in writes and reads of any length, then comes io.EOF, and the tag
// can be used again.
func TestStream(t *testing.T) {
	sizes := []int{0, 1, 1000, funet.StreamPiece - 1, funet.StreamPiece, funet.StreamPiece + 1,
		20*funet.StreamPiece + 7}
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			for _, size := range sizes {
				if e.Node() == 0 {
					w, err := e.Writer(ctx, 1, 4)
					if err != nil {
						return err
					}
					if _, err := io.Copy(w, bytes.NewReader(streamed(size))); err != nil {
						return err
					}
					if err := w.Close(); err != nil {
						return err
					}
					if _, err := w.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) || w.Close() != nil {
						return fmt.Errorf("writing after Close: %w", err)
					}
					continue
				}
				r, err := e.Reader(ctx, 0, 4)
				if err != nil {
					return err
				}
				if err := iotest.TestReader(r, streamed(size)); err != nil {
					return fmt.Errorf("%d bytes: %w", size, err)
				}
				if err := r.Close(); err != nil {
					return err
				}
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: a reader that does not read holds up its writer, after some pieces, and nobody else,
// however many streams there are.
func TestStreamsNotRead(t *testing.T) {
	const streams, tag, other = 2 * am.TagWindow, 100, 7
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			if e.Node() == 1 {
				readers := make([]*funet.StreamReader, streams)
				for i := range readers {
					var err error
					if readers[i], err = e.Reader(ctx, 0, tag+uint32(i)); err != nil {
						return err
					}
				}
				got := make([]byte, 100)
				if what, err := e.Recv(ctx, 0, other, got); err != nil || what.Bytes != 5 {
					return fmt.Errorf("a message beside the streams: %+v, %w", what, err)
				}
				for i, r := range readers {
					if got, err := io.ReadAll(r); err != nil || len(got) != 3*i+2 {
						return fmt.Errorf("stream %d: %d bytes, %w", i, len(got), err)
					}
				}
				return e.Barrier(ctx)
			}
			full := make(chan error, streams)
			var writers []*funet.StreamWriter
			for i := range streams {
				w, err := e.Writer(ctx, 1, tag+uint32(i))
				if err != nil {
					return err
				}
				writers = append(writers, w)
				if _, err := w.Write(make([]byte, i+1)); err != nil {
					return err
				}
				if _, err := w.Write(make([]byte, i+1)); err != nil {
					return err
				}
			}
			go func() { // waits until all that is before it was read
				_, err := writers[0].Write(make([]byte, 0))
				full <- err
			}()
			if err := errors.Join(<-full, e.SendTag(ctx, 1, other, []byte("hello"))); err != nil {
				return err
			}
			for i, w := range writers {
				if _, err := w.Write(make([]byte, i)); err != nil {
					return err
				}
				if err := w.Close(); err != nil {
					return err
				}
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: a write that waits for its reader ends with the context, and the stream has failed; an
// error of the writer is the reader's, and the reader's Close is the writer's io.ErrClosedPipe.
func TestStreamsFail(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.both(func(ctx context.Context, e *funet.Endpoint) error {
			why := errors.New("why")
			if e.Node() == 0 {
				ended, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				w, err := e.Writer(ended, 1, 1)
				if err != nil {
					return err
				}
				go cancel(why)
				_, err = io.Copy(w, strings.NewReader(strings.Repeat("nobody reads this ", 100_000)))
				if _, again := w.Write([]byte("more")); !errors.Is(err, why) || !errors.Is(err, am.ErrCancelled) ||
					!errors.Is(again, why) || !errors.Is(w.Close(), why) {
					return fmt.Errorf("a stream whose context ended: %v, then %v", err, again)
				}
				if w, err = e.Writer(ctx, 1, 2); err != nil {
					return err
				}
				_, err = w.Write([]byte("so far"))
				if err = errors.Join(err, w.CloseWithError(why)); err != nil {
					return err
				}
				if w, err = e.Writer(ctx, 1, 3); err != nil {
					return err
				}
				for err == nil {
					_, err = w.Write(make([]byte, 5000))
				}
				if !errors.Is(err, io.ErrClosedPipe) || !errors.Is(w.Close(), io.ErrClosedPipe) {
					return fmt.Errorf("writing to a reader that was closed: %w", err)
				}
				return e.Barrier(ctx)
			}
			r, err := e.Reader(ctx, 0, 2)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(r)
			var said *funet.StreamError
			if string(got) != "so far" || !errors.As(err, &said) || said.Node != 0 || said.Text != "why" {
				return fmt.Errorf("read %q, %w", got, err)
			}
			if r, err = e.Reader(ctx, 0, 3); err != nil {
				return err
			}
			if _, err := io.ReadFull(r, make([]byte, 7000)); err != nil {
				return err
			}
			if err := r.Close(); err != nil {
				return err
			}
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
				return fmt.Errorf("reading after Close: %w", err)
			}
			return e.Barrier(ctx)
		})
	})
}

// Rule: a stream whose other node leaves ends with an error, at either end.
func TestStreamOfANodeThatLeaves(t *testing.T) { onBoth(t, streamOfANodeThatLeaves) }

func streamOfANodeThatLeaves(t *testing.T, b *bed) {
	stays, leaves := b.open(0), b.open(1)
	const out, in = 1, 2
	w, err := stays.Writer(t.Context(), 1, out)
	if err != nil {
		t.Fatal(err)
	}
	r, err := stays.Reader(t.Context(), 1, in)
	if err != nil {
		t.Fatal(err)
	}
	other, err := leaves.Writer(t.Context(), 0, in)
	if err != nil {
		t.Fatal(err)
	}
	read, wrote := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.ReadAll(r)
		read <- err
	}()
	go func() {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1000))
		}
		wrote <- err
	}()
	if _, err := other.Write([]byte("partly")); err != nil {
		t.Error(err)
	}
	if err := leaves.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, err := range []error{await(t, "the reader's error", read), await(t, "the writer's error", wrote)} {
		if err == nil || errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a stream of a node that has left ended with %v", err)
		}
	}
}

// Rule: a writer that waits alone, while its program does nothing else, hears that the other node
// has left: it asks now and then.
func TestLonelyWriter(t *testing.T) {
	// a card that has left before it was ever heard of is waited for as long as one that has yet to
	// come
	b := newBed(t, "daemon")
	stays, leaves := b.open(0), b.open(1)
	w, err := stays.Writer(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := leaves.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wrote := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1000))
		}
		wrote <- err
	}()
	if err := await(t, "the writer's error", wrote); errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a stream to a node that has left ended with %v", err)
	}
}
