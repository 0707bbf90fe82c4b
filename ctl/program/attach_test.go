package program

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Rule: a profile that models time is refused with a daemon's card before the daemon is asked, and
// the line says what to use: the daemon would refuse it, too. One of limits alone, and one that is
// not here, are the daemon's to judge.
func TestModelledProfilesNeedACardOfTheirOwn(t *testing.T) {
	for name, refused := range map[string]bool{"hamlyn": true, "sbus-arctic": true, "cm5": true, "native": false,
		"no-such-profile": false} {
		var f Flags
		c := &cobra.Command{}
		f.Register(c)
		if err := c.ParseFlags([]string{"--card", "daemon", "--profile", name}); err != nil {
			t.Fatal(err)
		}
		switch err := f.Check(); {
		case refused && (err == nil || !strings.Contains(err.Error(), "--card embedded")):
			t.Errorf("%s with a daemon's card: %v", name, err)
		case !refused && err != nil:
			t.Errorf("%s with a daemon's card: %v", name, err)
		}
	}
}
