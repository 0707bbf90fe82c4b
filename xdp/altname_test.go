package xdp

import (
	"strings"
	"testing"
)

// Rule (Find): an interface is found by its name and by its alternative names, of any length; its
// Name is its own.
func TestFindByAlternativeName(t *testing.T) {
	l := newLab(t, labOptions{})
	link := l.link(0)
	long := "enx-" + strings.Repeat("long-", 10) + "name"
	for _, name := range []string{"short", long} {
		must(t, l.nl[0].LinkAddAltName(link, name))
	}
	own := link.Attrs().Name
	l.in(0, func() {
		for _, name := range []string{own, "short", long} {
			i, err := Find(name)
			if err != nil || i.Name != own || i.Index != link.Attrs().Index {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
		}
		if _, err := Find("nosuch0"); err == nil {
			t.Error("nosuch0 is there")
		}
	})
}
