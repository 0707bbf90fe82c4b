package tests

// This file tests that a rank over the provider of libfabric that is killed ends what the others
// have under way with it, and nothing else.

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
)

var (
	kills    = flag.Int("kills", 9, "of ranks in TestProviderKilled")
	killSeed = flag.Uint64("kill-seed", uint64(time.Now().UnixNano()), "from which TestProviderKilled draws")
)

// Rule: a rank that is killed, in any phase, ends the others' operations with it by an error; the
// others go on with each other, close everything, and end. So does a rank that is never there.
func TestProviderKilled(t *testing.T) {
	long.Test(t)
	t.Parallel()
	program := withFabric(t, "killed")
	s := directs(t)
	t.Logf("-kill-seed=%d", *killSeed)
	r := rand.New(rand.NewPCG(*killSeed, 0))
	// The shell of the victim ends well, so that funet run ends nobody.
	const script = `"$@"; code=$?; [ $code = 137 ] && [ $FUNET_NODE = $3 ] && exit; exit $code`
	// The phases of a turn run at once. Each kills a rank after at most so many microseconds.
	phases := []struct {
		name string
		most int
	}{{"open", 100_000}, {"connect", 5_000}, {"short", 20_000}, {"long", 50_000}, {"write", 50_000},
		{"read", 50_000}, {"atomic", 20_000}, {"barrier", 10_000}, {"close", 2_000}}
	for done := 0; done < *kills; {
		var runs []*process
		for _, phase := range phases {
			args := []string{"env", "FI_LOG_LEVEL=warn", "sh", "-c", script, "sh", program, phase.name, strconv.Itoa(r.IntN(3)),
				strconv.Itoa(r.IntN(phase.most))}
			runs = append(runs, s.run(append([]string{"-n", "3", "--"}, withProvider(t, args...)...)...))
			done++
		}
		for i, p := range runs {
			what := fmt.Sprint(p.cmd.Args[len(p.cmd.Args)-3:])
			if code := p.wait(); code != 0 || strings.Count(p.stdout.String(), "survived\n") != 2 {
				t.Errorf("phase %s, %s: exit code %d: %s%s", phases[i].name, what, code, p.stdout.String(),
					tail(p.stderr.String()))
			}
		}
	}
	s.free()
}
