package funi_test

// This file runs the policy of waiting of funi.h and that of package wait beside each other.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/uspace/wait"
)

// waits reads waits, one a line: whether something is found first, what a look takes and what a
// yield takes; and prints what is done, after how many looks, and when.
const waits = `
#include "funi.h"

int main(void)
{
	struct funi_waiter w = { 0 };
	long long now = 1, look, yield;
	int found;
	while (scanf("%d %lld %lld", &found, &look, &yield) == 3) {
		int looks = 0, sleep;
		if (found)
			w.idle = 0, w.since = 0;
		do {
			now += look;
			looks++;
		} while (!funi_tired(&w));
		sleep = funi_next(&w, now);
		printf("%d %d %lld\n", sleep, looks, now);
		if (!sleep)
			funi_yielded(&w, now, now + yield);
		now += sleep ? FUNI_NAP * 1000000ll : yield;
		if (sleep)
			funi_slept(&w, now);
	}
	return 0;
}
`

// Rule (package wait): a C program waits as a Go program does, at every yield and sleep.
func TestHeaderWaits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "wait.c")
	if err := os.WriteFile(file, []byte(waits), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I.", "-o",
		filepath.Join(dir, "wait"), file).CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	random := rand.New(rand.NewPCG(1, 2))
	w, now := wait.New(wait.C), int64(1)
	var script, want strings.Builder
	yields, sleeps := 0, 0
	for range 20000 {
		found := random.IntN(3) == 0
		look := 1 + random.Int64N(100)
		yield := []int64{500, wait.SomeoneRan, wait.SomeoneRan + 1, 20_000, wait.SomeoneComputes + 1,
			5_000_000}[min(random.IntN(40), 5)]
		if random.IntN(4) > 0 {
			yield = 500 + random.Int64N(3000)
		}
		looks := 1
		if fmt.Fprintln(&script, btoi(found), look, yield); found {
			w.Found()
		}
		for now += look; !w.Tired(); now += look {
			looks++
		}
		did := w.Next(now)
		fmt.Fprintln(&want, btoi(did == wait.Sleep), looks, now)
		if did == wait.Sleep {
			sleeps++
			now += wait.C.LongestSleep
			w.Slept(now)
			continue
		}
		yields++
		w.Yielded(now, now+yield)
		now += yield
	}
	if yields < 1000 || sleeps < 1000 {
		t.Fatalf("%d yields and %d sleeps test nothing", yields, sleeps)
	}
	c := exec.Command(filepath.Join(dir, "wait"))
	c.Stdin = strings.NewReader(script.String())
	got, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	g, e := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
	for i := range min(len(g), len(e)) {
		if d := cmp.Diff(e[i], g[i]); d != "" {
			t.Fatalf("rest %d: asleep, looks and time of Go and of funi.h (-Go +C):\n%s", i, d)
		}
	}
	if len(g) != len(e) {
		t.Fatalf("%d lines, want %d", len(g), len(e))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
