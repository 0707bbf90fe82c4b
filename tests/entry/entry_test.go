package entry

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// playEnv makes the test binary a command: one that "fails", or one that "waits" for its context.
const playEnv = "ENTRY_TEST_PLAYS"

func TestMain(m *testing.M) {
	plays := os.Getenv(playEnv)
	if plays == "" {
		os.Exit(m.Run())
	}
	Main(&cobra.Command{Use: "played", SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if plays == "fails" {
				return errors.New("this\nand that")
			}
			fmt.Println("waiting")
			<-c.Context().Done()
			fmt.Println("taken down")
			return c.Context().Err()
		}})
}

func play(t *testing.T, as string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), playEnv+"="+as)
	return cmd
}

// Rule: a failure is one line and exit code 1.
func TestFailure(t *testing.T) {
	cmd := play(t, "fails")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || said.String() != "played: this; and that\n" {
		t.Errorf("%v: %q", err, said.String())
	}
}

// Rule: each of the signals ends the context; the command takes down what it has made, and the exit
// code says which it was.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) {
			continue // as nohup(1) has SIGHUP, for the command, too
		}
		cmd := play(t, "waits")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "waiting" {
			t.Fatalf("it says %q", lines.Text())
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || lines.Text() != "taken down" {
			t.Errorf("%v: it says %q", s, lines.Text())
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(s) ||
			said.String() != fmt.Sprintf("played: ended by %v\n", s) {
			t.Errorf("%v: %v, %q", s, err, said.String())
		}
	}
}
