// Package hostile attacks the daemon while two groups of ordinary users exchange messages and
// blocks, every word of them verified (victim_test.go). Another user does to the card all that he
// can (enemy_*_test.go), or one thing as fast as he can (attacks_test.go, package attack). Then
// processes and daemons are killed in the middle of their work (storm_test.go). Nothing of the
// others may be lost, damaged, delivered to somebody else or slowed below half, and the daemon may
// neither end nor grow (issue "The card as a service", 3, 5 and 7). The same holds for users with
// direct ports, and the program funid, which gives them (ports_test.go).
//
// Everybody is a process of its own: the test binary executes itself again, in the role
// that roleEnv says. Daemons are root's, in the hosts of a lab; the users are numbers that
// nobody on the machine has. Roles and test speak in lines, over standard input and output.
//
// The short form is some 20 seconds of verified traffic, and less with -short. HOSTILETIME=10m
// makes it long (`make hostile`). Only then is a rate that falls below half an error: on a machine
// that does other things besides, short rates say nothing. HOSTILESEED repeats the choices of a
// run.
package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/funet/funet/tests/attack"
)

// patience bounds every wait: long enough for a machine that is busy.
const patience = 60 * time.Second

// Environment variables of the roles.
const (
	roleEnv   = "FUNET_HOSTILE_ROLE"
	configEnv = "FUNET_HOSTILE_CONFIG"
)

// Users that nobody else is.
const (
	firstVictim = 52001
	enemyUser   = 52666
)

// folder holds the sockets, and the test binary where every user can execute it.
var folder, program string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Getenv(configEnv)); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// play is the life of a role.
func play(role, config string) error {
	decode := func(v any) error {
		if err := json.Unmarshal([]byte(config), v); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		return nil
	}
	switch role {
	case "daemon":
		var c daemonConfig
		return errors.Join(decode(&c), serve(c))
	case "victim":
		var c victimConfig
		if err := decode(&c); err != nil {
			return err
		}
		return newVictim(c).live()
	case "enemy":
		var c enemyConfig
		if err := decode(&c); err != nil {
			return err
		}
		return newEnemy(c).live()
	case "offspring":
		return offspring()
	case "knocker":
		var c knockConfig
		return errors.Join(decode(&c), knock(c))
	case "attacker":
		var c attack.Config
		return errors.Join(decode(&c), attack.Play(c, os.Stdout))
	case "unable":
		var c unableConfig
		return errors.Join(decode(&c), unable(c))
	case "computer":
		compute()
	}
	return errors.New("no such role")
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("these tests make network namespaces and AF_XDP sockets: run them as root")
	}
	if folder, err = os.MkdirTemp("", "funet-hostile"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // nobody runs it too
		return 0, err
	}
	program = filepath.Join(folder, "role")
	if err := copyOfThis(program); err != nil {
		return 0, fmt.Errorf("copying the test binary: %w", err)
	}
	return m.Run(), nil
}

// copyOfThis copies the running program: `go test` puts it where only its user finds it.
func copyOfThis(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// length returns how long a test is to go on, and whether that is the long form. It is a third of
// the short form with -short.
func length(t *testing.T, short time.Duration) (d time.Duration, long bool) {
	t.Helper()
	s := os.Getenv("HOSTILETIME")
	if s == "" && testing.Short() {
		return short / 3, false
	}
	if s == "" {
		return short, false
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < short {
		t.Fatalf("HOSTILETIME=%s: use a duration of at least %v", s, short)
	}
	return d, d >= time.Minute
}

// seed returns where the choices of a test start, and prints it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("HOSTILESEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HOSTILESEED=%s: use a number", s)
		}
	}
	t.Logf("HOSTILESEED=%d repeats the choices", n)
	return n
}
