package attach_test

// This file has triggers of processes of another card (uspace/funi/trigger.go).

import (
	"fmt"
	"testing"
)

// Rule: a C program that issues by triggers sends what it has committed, in order, and hears of
// each trigger (funi_issue_by_trigger, funi_trigger).
func TestCTriggers(t *testing.T) {
	program := compile(t, "testdata/trigger.c")
	const messages = 5000
	d := start(t, "")
	ended := runs(d.member(program, 1, fmt.Sprint(messages)))
	if r := await(t, "it has received all", ended); r.err != nil || string(r.out) != fmt.Sprintf("received %d\n",
		messages) {
		t.Errorf("%v, and it said %q", r.err, r.out)
	}
}

// Rule: C programs with remote memory issue their operations by triggers, give notifications back
// by them, and meet at barriers (funi_vci_issue, funi_barrier).
func TestCPorts(t *testing.T) {
	program := compile(t, "testdata/port.c")
	const rounds = 500
	d := start(t, "")
	var ended []<-chan outcome
	for node := range uint16(2) {
		ended = append(ended, runs(d.member(program, node, fmt.Sprint(rounds))))
	}
	for node, e := range ended {
		if r := await(t, "it has passed all", e); r.err != nil || string(r.out) != fmt.Sprintf("passed %d\n", rounds) {
			t.Errorf("node %d: %v, and it said %q", node, r.err, r.out)
		}
	}
}
