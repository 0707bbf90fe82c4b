package hostile

// This file is the attacks with rows (uspace/attach/row.go), each for a time beside verified
// traffic.

import (
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/tests/attack"
)

// TestRows: a user with 1,024 contexts behind one connection triggers from all of them at once, and
// another time attaches such rows, writes over their memory and doorbells and gives them up, also
// half-way. It costs others nothing, and nothing of it is left, as in TestAttacks.
func TestRows(t *testing.T) {
	d, _ := length(t, 10*time.Second)
	b := newBed(t, []config.Rule{{Who: config.Who{Users: []uint32{enemyUser}}, Contexts: attack.RowContexts},
		{Who: config.Who{Users: []uint32{0}}, Contexts: 2048, Jobs: 1024, Connections: 1024}, {}}, longSilence)
	b.withstand(t, attack.Rows(), max(2*time.Second, d/5), nil)
}
