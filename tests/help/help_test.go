package help

import (
	"testing"

	"github.com/spf13/cobra"
)

// Back quotes in a flag's text that name no argument are noticed.
func TestOdd(t *testing.T) {
	c := &cobra.Command{Use: "prog"}
	c.Flags().String("file", "", "write `FILE`")
	if odd := Odd(c); odd != nil {
		t.Errorf("%q", odd)
	}
	c.Flags().Bool("daemons", false, "for `prog run`")
	c.Flags().String("user", "", "see `id`")
	if odd := Odd(c); len(odd) != 2 {
		t.Errorf("%q", odd)
	}
}
