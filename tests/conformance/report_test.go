package conformance

// This file prints figures.

import (
	"encoding/json"
	"fmt"
	"testing"
)

// report prints figures as one line of JSON that begins with what was measured.
func report(t *testing.T, what string, figures map[string]float64) {
	t.Helper()
	b, err := json.Marshal(map[string]map[string]float64{what: figures})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(b))
}
