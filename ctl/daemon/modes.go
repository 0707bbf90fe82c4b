package daemon

// This file says how frames reach the card.

import (
	"slices"
	"strings"
)

// modes are the XDP and AF_XDP modes of the interfaces, each once, joined with '+'.
func (d *Daemon) modes() (xdp, bind string) {
	var x, b []string
	for _, p := range d.loop.ports {
		i := p.Info()
		x, b = append(x, i.XDPMode.String()), append(b, i.BindMode.String())
	}
	return strings.Join(slices.Compact(x), "+"), strings.Join(slices.Compact(b), "+")
}
