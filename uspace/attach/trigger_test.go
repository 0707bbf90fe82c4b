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
