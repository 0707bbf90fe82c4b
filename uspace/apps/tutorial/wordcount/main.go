// Wordcount is the third program of the tutorial: the nodes of a job count the words of a text
// together, and node 0 prints the most frequent ones.
//
//	go build ./uspace/apps/tutorial/wordcount
//	bin/funet run -n 4 --lab -- ./wordcount < README.md
//
// Node 0 reads the text and gives each node a piece. Each word has an owner, a node that its hash
// chooses: every node counts the words of its piece and sends each owner what it has counted of
// his, all at the same time. It shows calls with data of any length, many calls under way from
// several goroutines, state that handlers share without a lock, and errors that cross the wire.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/funet/funet/uspace/funet"
)

// Handlers, the same on every node.
const (
	takePiece  = iota // a piece of the text
	takeCounts        // words that the node owns, with how often the caller has seen them
	mostOf            // the most frequent words that the node owns
)

// most is how many words are printed.
const most = 10

// counted is a word and how often it is in the text.
type counted struct {
	Word  string
	Times int
}

// program is a node. Handlers run one at a time, so what only they change needs no lock; main reads
// it after a barrier.
type program struct {
	*funet.Endpoint
	piece  string
	counts map[string]int // of the words that the node owns
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	p := program{counts: map[string]int{}}
	if p.Endpoint, err = funet.Open(ctx, funet.Options{}); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, p.Close(ctx)) }()
	if err := errors.Join(p.Serve(takePiece, p.takePiece), p.Serve(takeCounts, p.takeCounts),
		p.Serve(mostOf, p.mostOf)); err != nil {
		return err
	}
	if err := p.Barrier(ctx); err != nil { // all nodes have their handlers
		return err
	}
	if p.Node() == 0 {
		if err := p.share(ctx); err != nil {
			return err
		}
	}
	if err := p.Barrier(ctx); err != nil { // all nodes have their pieces
		return err
	}
	if err := p.count(ctx); err != nil {
		return err
	}
	if err := p.Barrier(ctx); err != nil { // all owners have all counts
		return err
	}
	if p.Node() == 0 {
		if err := p.print(ctx); err != nil {
			return err
		}
	}
	return p.Barrier(ctx) // nobody leaves while node 0 still calls it
}

// share reads the text at node 0, whose standard input is that of funet run, and gives each node a
// piece that ends with a line.
func (p *program) share(ctx context.Context) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return errors.New("no text came; give one at standard input, as in: funet run -n 4 --lab -- ./wordcount < README.md")
	}
	for node := range p.Nodes() {
		end := len(text) / (p.Nodes() - node)
		for end < len(text) && text[end] != '\n' {
			end++
		}
		if _, err := p.Call(ctx, node, takePiece, text[:end]); err != nil {
			return err
		}
		text = text[end:]
	}
	return nil
}

// takePiece keeps a piece. The message's bytes are the program's only until the handler returns, so
// it copies them.
func (p *program) takePiece(m *funet.Message) ([]byte, error) {
	p.piece = string(m.Bytes)
	return nil, nil
}

// count counts the words of the piece and sends them to their owners, one goroutine for each. The
// node calls itself, too.
func (p *program) count(ctx context.Context) error {
	of := make([]map[string]int, p.Nodes())
	for node := range of {
		of[node] = map[string]int{}
	}
	for word := range strings.FieldsFuncSeq(p.piece, func(r rune) bool { return !unicode.IsLetter(r) }) {
		word = strings.ToLower(word)
		h := fnv.New32a()
		io.WriteString(h, word)
		of[h.Sum32()%uint32(p.Nodes())][word]++
	}
	errs := make([]error, p.Nodes())
	var all sync.WaitGroup
	for node, words := range of {
		all.Go(func() {
			b, err := json.Marshal(words)
			if err == nil {
				_, err = p.Call(ctx, node, takeCounts, b)
			}
			errs[node] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// takeCounts adds what a node has counted. An error is the caller's: it gets its text, and this
// node goes on.
func (p *program) takeCounts(m *funet.Message) ([]byte, error) {
	var words map[string]int
	if err := json.Unmarshal(m.Bytes, &words); err != nil {
		return nil, fmt.Errorf("reading the counts of node %d: %w", m.Source, err)
	}
	for word, times := range words {
		p.counts[word] += times
	}
	return nil, nil
}

// mostOf answers with the most frequent words of the node.
func (p *program) mostOf(*funet.Message) ([]byte, error) {
	var all []counted
	for word, times := range p.counts {
		all = append(all, counted{word, times})
	}
	return json.Marshal(first(all))
}

// first returns the most frequent words, in order.
func first(all []counted) []counted {
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Word, b.Word))
	})
	return all[:min(most, len(all))]
}

// print asks every node for its most frequent words, and prints those of all.
func (p *program) print(ctx context.Context) error {
	var all []counted
	for node := range p.Nodes() {
		answer, err := p.Call(ctx, node, mostOf, nil)
		if err != nil {
			return err
		}
		var theirs []counted
		if err := json.Unmarshal(answer, &theirs); err != nil {
			return fmt.Errorf("reading the words of node %d: %w", node, err)
		}
		all = append(all, theirs...)
	}
	for _, c := range first(all) {
		fmt.Printf("%7d %s\n", c.Times, c.Word)
	}
	return nil
}
