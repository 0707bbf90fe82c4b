package main

// This file is the kernels: what they complain about, and their own traffic beside FUNet.

import (
	"context"
	"regexp"
	"time"
)

// complaint matches what a kernel says when something went wrong.
var complaint = regexp.MustCompile(`(?m)^.*(WARNING:|BUG:|Call Trace|Oops|general protection|lockup|Hang|timed out|Reset adapter|[Rr]edirect failed|XDP|xsk).*$`)

// mostComplaints is how many are reported of a kernel.
const mostComplaints = 10

// complaints are what both kernels' logs have.
func (p pair) complaints(ctx context.Context) (all []string, err error) {
	for _, m := range p {
		e, err := m.run(ctx, time.Minute, "dmesg")
		if err != nil {
			return all, err
		}
		all = append(all, complaint.FindAllString(e.Stdout, mostComplaints)...)
	}
	return all, nil
}
