// Command funet-paper is `funet sim cmam`, `matmul`, `ni` and `rats`: tables and figures of papers,
// beside modelled machines in virtual time (package ctl/paper). funet executes it with its own
// command line (package ctl/command), so it takes lines such as `funet-paper sim ni --json`.
package main

import "github.com/funet/funet/ctl/paper"

func main() { paper.Tree().Main() }
