package daemon

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/attach"
)

// fated is a daemon, of card 0, with a job whose nodes are on the cards.
func fated(cards ...uint16) (*Daemon, *job) {
	j := &job{gid: 7, tag: 9, direct: true, made: true, cards: cards, members: map[uint16]*connection{},
		came: map[uint16]bool{}, fates: newFates(cards, 0)}
	d := &Daemon{jobs: map[uint16]*job{7: j}, loop: &loop{post: &post{}}}
	return d, j
}

// Rule (fate.go): of what other hosts say a job has so much at once, and then 10,000 a second at
// most, and of its processes' questions 1,000; what is more is counted and changes nothing.
func TestNoticesAreBounded(t *testing.T) {
	d, j := fated(0, 1)
	const tries = 20_000
	for name, c := range map[string]struct {
		gap time.Duration
		may func(i int) bool
	}{
		"notices": {noticeGap, func(i int) bool {
			j, count := d.believes(&heardNotice{notice{saysEnded, 7, 1, 9, 5, uint64(i)}, 1})
			if j == nil {
				count.Add(1)
			}
			return j != nil
		}},
		"questions": {doubtGap, func(int) bool { return d.mayAsk(j) }},
	} {
		begun, may := time.Now(), 0
		for i := range tries {
			if c.may(i + 1) {
				may++
			}
		}
		most := int((burst+time.Since(begun))/c.gap) + 2
		if may > most || may < int(burst/c.gap) {
			t.Errorf("%s: %d in %v, want at most %d", name, may, time.Since(begun), most)
		}
		if n := d.loop.post.unheard.Swap(0); name == "notices" && n != uint64(tries-may) {
			t.Errorf("%d counted, of %d", n, tries-may)
		}
	}
}

// Rule (believes): in whatever order and however often notices come, what is known of a node is the
// newest that the host of the node has said, and nothing else is known of any.
func TestNewestNoticeCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := rapid.SliceOfN(rapid.Uint16Range(0, 3), 1, 6).Draw(t, "cards")
		d, j := fated(cards...)
		want := map[uint16]attach.Fate{}
		for range rapid.IntRange(0, 40).Draw(t, "notices") {
			n := heardNotice{notice{noticeKind(rapid.IntRange(1, 2).Draw(t, "kind")),
				rapid.Uint16Range(6, 7).Draw(t, "gid"), rapid.Uint16Range(0, 7).Draw(t, "node"),
				rapid.Uint64Range(8, 9).Draw(t, "tag"), rapid.Uint32Range(1, 3).Draw(t, "life"),
				rapid.Uint64Range(0, 9).Draw(t, "order")}, rapid.Uint16Range(0, 4).Draw(t, "from")}
			knows := n.gid == 7 && n.tag == 9 && int(n.node) < len(cards) && cards[n.node] == n.from && n.from != 0 &&
				n.order > want[n.node].Order
			if knows {
				want[n.node] = attach.Fate{Node: n.node, Lives: n.kind == saysLives, Life: n.life, Order: n.order}
			}
			if of, _ := d.believes(&n); (of == j) != knows {
				t.Fatalf("%+v is believed: %v, want %v", n, of == j, knows)
			}
		}
		for node := range uint16(8) {
			if j.known[node] != want[node] {
				t.Fatalf("known of node %d is %+v, want %+v", node, j.known[node], want[node])
			}
		}
	})
}

// Rule (fatesOf): who asks after a process of this host hears that it is there, or that it has
// ended and which is there now; of one that has not come, nothing. Each answer is newer than all
// before.
func TestAnswersToDoubts(t *testing.T) {
	d, j := fated(0, 0, 0)
	j.came[0], j.came[1] = true, true
	d.born(j, 1, 5)
	var order uint64
	for _, c := range []struct {
		node uint16
		life uint32
		want []attach.Fate // without their order
	}{
		{0, 4, []attach.Fate{{Node: 0, Life: 4}}},
		{1, 5, []attach.Fate{{Node: 1, Life: 5, Lives: true}}},
		{1, 4, []attach.Fate{{Node: 1, Life: 4}, {Node: 1, Life: 5, Lives: true}}},
		{2, 4, nil},
	} {
		got := d.fatesOf(j, c.node, c.life)
		for i := range got {
			if got[i].Order <= order {
				t.Errorf("order %d after %d", got[i].Order, order)
			}
			order, got[i].Order = got[i].Order, 0
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("node %d, life %d: %+v, want %+v", c.node, c.life, got, c.want)
		}
	}
	if f := d.died(j, 1, 5); f.Lives || f.Order <= order || len(j.lives) != 0 {
		t.Errorf("died: %+v, and lives %v", f, j.lives)
	}
	if f := d.born(j, 1, 6); f == nil || !f.Lives || f.Life != 6 {
		t.Errorf("its next life: %+v", f)
	}
	if f := d.born(j, 2, 8); f != nil {
		t.Errorf("a first life is told: %+v", f)
	}
}
