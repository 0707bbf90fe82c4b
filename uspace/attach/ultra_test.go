package attach_test

// This file has ULTRA paths of processes of another card (uspace/funi/path.go).

import (
	"fmt"
	"testing"
)

// Rule: two C programs send and receive lines on a path, in order and whole, and sleep while they
// wait (funi_ultra_open, funi_ultra_send, funi_ultra_receive).
func TestCPaths(t *testing.T) {
	program := compile(t, "testdata/ultra.c")
	const lines = 20_000
	d := start(t, "")
	receiver := runs(d.member(program, 1, fmt.Sprint(lines)))
	sender := runs(d.member(program, 0, fmt.Sprint(lines)))
	for what, ended := range map[string]<-chan outcome{"sender": sender, "receiver": receiver} {
		if r := await(t, "the "+what+" has ended", ended); r.err != nil || string(r.out) != "done\n" {
			t.Errorf("%s: %v, and it said %q", what, r.err, r.out)
		}
	}
}
