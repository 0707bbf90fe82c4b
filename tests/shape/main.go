// Command shape measures how easy the source is to read: the size of the two largest types, long
// functions, wide lines and long sentences. It prints a table, or with --json one document. It
// fails when a figure is beyond its limit (report.go). The names in the document are stable.
//
//	go run ./tests/shape [--json] [--only FIGURE] [FOLDER]
//
// The journey of the data: read.go walks the folder and reads each Go and C file, and the README,
// once. Each file adds to one figures value (figures.go), and prose.go splits comments into
// sentences. report.go judges and prints. Generated files and test data are left out.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON document")
	only := flag.String("only", "", "judge this figure alone, and print its places if it is not met")
	flag.Parse()
	folder := "."
	if flag.NArg() > 0 {
		folder = flag.Arg(0)
	}
	f, err := measure(folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(2)
	}
	r := f.report()
	if *only != "" {
		if err := r.keep(*only); err != nil {
			fmt.Fprintln(os.Stderr, "shape:", err)
			os.Exit(2)
		}
	}
	if err := r.print(os.Stdout, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "shape: printing the figures:", err)
		os.Exit(2)
	}
	if !r.Met {
		os.Exit(1)
	}
}
