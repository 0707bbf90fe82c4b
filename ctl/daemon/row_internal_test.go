package daemon

import (
	"errors"
	"testing"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// Rule (reserve.go): near contexts and those of rows are two resources. However many rows users
// have, as many contexts attach alone as before there were rows, and the other way round. Of both a
// user alone gets at most three quarters.
func TestRowsTakeNoNearContexts(t *testing.T) {
	c, err := capacityOf(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	c.pieces, c.descriptors = 1<<40, 1<<40
	rows := func(n int) usage { return usage{contexts: n * attach.MaxRow, far: n * attach.MaxRow, rows: n} }
	alone := func(n int) usage { return usage{contexts: n} }
	both := func(a, b usage) usage { a.add(b, 1); return a }
	const far = (funi.MaxContexts - funi.NearBells) / attach.MaxRow
	for _, v := range []struct {
		what           string
		all, now, more usage
		refused        bool
	}{
		{"three quarters of the rows", usage{}, usage{}, rows(far * 3 / 4), false},
		{"more of them", rows(far * 3 / 4), rows(far * 3 / 4), rows(far/4 + 1), true},
		{"another's row", rows(far * 3 / 4), usage{}, rows(1), false},
		{"a context beside all rows", rows(far), rows(far), alone(1), false},
		{"three quarters of the contexts beside them", rows(far), usage{}, alone(funi.NearBells * 3 / 4), false},
		{"more of them", both(rows(far), alone(1536)), both(rows(far), alone(1536)), alone(300), true},
		{"the last context", both(rows(far), alone(funi.NearBells)), usage{}, alone(1), true},
		{"a row beside all contexts", alone(funi.NearBells), alone(funi.NearBells), rows(1), false},
	} {
		if err := c.reserved(1, v.all, v.now, v.more); errors.Is(err, attach.ErrQuota) != v.refused {
			t.Errorf("%s: %v", v.what, err)
		}
	}
	// A row takes the descriptors of one context.
	if a, b := rows(1), alone(1); a.descriptors() != b.descriptors() {
		t.Errorf("a row takes %d descriptors, a context %d", a.descriptors(), b.descriptors())
	}
}
