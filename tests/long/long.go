// Package long marks the tests that `make test` leaves to `make test-all`, because they take many
// seconds. The gate of both (tests/gate) counts the tests that were left, and refuses every other
// skip.
package long

import (
	"os"
	"testing"
)

// Left is the reason of the skips. The gate knows them by it.
const Left = "make test-all runs this test"

// allEnv makes -short leave no test: tests have fewer seeds and rounds, but each one runs.
const allEnv = "FUNET_TESTS_ALL"

// Short reports whether tests are left to make test-all: with -short, without FUNET_TESTS_ALL.
func Short() bool { return testing.Short() && os.Getenv(allEnv) == "" }

// Test skips the test that calls it if Short.
func Test(t testing.TB) {
	t.Helper()
	if Short() {
		t.Skip(Left)
	}
}
