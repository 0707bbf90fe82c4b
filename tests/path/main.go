// Command path counts the functions that one round trip of active messages executes: a four-word
// request and a four-word reply, between two cards on AF_XDP in the two hosts of a lab. It prints
// them by package, or with --json as one document. It fails when there are more than the limit. The
// names in the document are stable. It needs root.
//
//	go run ./tests/path [--json] [--list] [--trips N] [--most FUNCTIONS]
//
// Run it at the top of the repository.
//
// The journey of the data: main builds this program again, with coverage counters in the packages
// of uspace and xdp (count.go), and starts it. The built program makes the lab and the round trips
// (trips.go). It clears the counters after the warm-up and writes them into a folder after the last
// round trip. count.go finds the first counter of each function in the source, and report.go prints
// the functions whose counter is at least the number of round trips.
//
// Functions without a statement and function literals are not counted on their own. Inlined
// functions are counted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON document")
	list := flag.Bool("list", false, "print the names of the functions, too")
	trips := flag.Int("trips", 20_000, "round trips to count")
	most := flag.Int("most", 160, "how many functions a round trip may execute")
	folder := flag.String("into", "", "make the round trips, and write the counters into this folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *folder, *trips, *most, *asJSON, *list); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string, trips, most int, asJSON, list bool) error {
	if trips < 1 {
		return errors.New("--trips must be at least 1")
	}
	if folder != "" {
		return walk(folder, trips)
	}
	all, err := measure(ctx, trips)
	if err != nil {
		return err
	}
	r := newReport(all, trips, most)
	if err := r.print(os.Stdout, asJSON, list); err != nil {
		return fmt.Errorf("printing the functions: %w", err)
	}
	if !r.Met {
		return fmt.Errorf("a round trip executes %d functions, more than %d", r.Functions, most)
	}
	return nil
}
