// Command funet-bench is `funet bench`: measurements of FUNet beside what one would use otherwise
// (package ctl/bench). funet executes it with its own command line (package ctl/command), so it
// takes lines such as `funet-bench bench peers --lab 2`.
package main

import "github.com/funet/funet/ctl/bench"

func main() { bench.Tree().Main() }
