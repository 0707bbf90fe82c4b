// Package long marks the tests that `make test` leaves to `make test-all`, because they take many
// seconds. The gate of both (tests/gate) counts the tests that were left, and refuses every other
// skip.
package long

import "testing"

// Left is the reason of the skips. The gate knows them by it.
const Left = "make test-all runs this test"

// Test skips the test that calls it if the tests run with -short.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Left)
	}
}
