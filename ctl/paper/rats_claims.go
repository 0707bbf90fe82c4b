package paper

// This file is `funet sim rats --claims`: it compares the conclusions in the paper's text with the
// sums of the steps.

import (
	"fmt"
	"strconv"

	"github.com/funet/funet/ctl/output"
)

// conclusion is one statement of the text with a number.
type conclusion struct {
	Section string  `json:"section"`
	Says    string  `json:"says"`
	Printed float64 `json:"printed"`
	Model   float64 `json:"model"`
	Unit    string  `json:"unit"`
	Holds   bool    `json:"holds"` // to within one of the last printed digit
	Note    string  `json:"note"`
	text    string
}

type conclusions struct {
	Profile string       `json:"profile"`
	Claims  []conclusion `json:"claims"`
	Hold    int          `json:"hold"`
}

// claims makes the claims for which the profile has the steps.
func (m *hamlyn) claims() (*conclusions, error) {
	r := &conclusions{Profile: m.p.Name}
	add := func(section, says, printed string, model float64, unit, note string) {
		c := conclusion{Section: section, Says: says, text: printed, Model: model, Unit: unit, Note: note}
		c.Printed, _ = strconv.ParseFloat(printed, 64) // a literal below
		if c.Holds = toLastDigit(model, printed); c.Holds {
			r.Hold++
		}
		r.Claims = append(r.Claims, c)
	}
	us := m.cycle / 1000
	tagged, taggedDMA := m.us("tagged", "direct", 16, 0), m.us("tagged", "dma", 512, 0)
	datagram, datagramDMA := m.us("datagram", "direct", 16, 44), m.us("datagram", "dma", 512, 44)
	add("4.1", "Rats on the path of a tagged write of 16 bytes", "1.6", tagged, "us", "")
	add("4.1", "and of 512 bytes by DMA", "1.7", taggedDMA, "us", "")
	add("4.1", "of a simple datagram with what a reply needs", "2.2", datagram, "us", "")
	add("4.1", "the same by DMA", "2.3", datagramDMA, "us", "")
	add("4.1", "of its round trip", "4.4", 2*datagram, "us", "the paper rounds before it doubles")
	add("4.1", "the same by DMA", "4.6", 2*datagramDMA, "us", "the paper rounds before it doubles")
	add("4.1", "instructions to send 64 bytes", "215", m.instructions("datagram", "direct", 64, 12), "instructions",
		"m and d of Table 2 are bytes")
	add("4.1", "the same by DMA", "188", m.instructions("datagram", "dma", 64, 12), "instructions", "")
	add("4.1", "more for a packet of 32 bytes", "12",
		m.instructions("datagram", "direct", 32, 12)-m.instructions("datagram", "direct", 16, 12), "instructions", "")
	if m.has("direct") && m.has("dma") {
		dma := m.dma(512, 1)
		direct16, dma512 := m.direct(16).all()*us, dma.all()*us
		round := dma512 + taggedDMA + direct16 + tagged
		add("4.2", "application to application, 16 bytes with a tag", "8.8", direct16+tagged, "us", "")
		add("4.2", "a datagram of 512 bytes and an acknowledgment of 16", "42.2", round, "us",
			"with what tagged writes cost; simple datagrams cost more")
		add("4.2", "bandwidth of that", "12.1", 512/round, "10^6 byte/s", "")
		with := dma.sender + m.sum("dma", "sender", "off", 512, 0, "notify host")
		add("4.2", "pipelined messages of 512 bytes", "27.0", 512/(with*us), "10^6 byte/s",
			fmt.Sprintf("the sender's cycles with a notice give this, and without %.1f; "+
				"the paper does not say what its figure is", 512/(dma.sender*us)))
		add("4.2", "transfers of 4 Kbyte", "49.2", 4096/(m.dma(512, 8).all()*us), "10^6 byte/s",
			"the cards alone; 1.1 us of software would give the paper's figure")
		add("4.2", "transfers of 1 Mbyte", "67.8", 1/(m.dma(512, 2048).all()*us)*1e6, "2^20 byte/s",
			"in units of 2^20, as the others are not")
		add("4.2", "DMA breaks even from", "30", m.evenBytes(), "byte",
			"of tagged writes by instructions; of simple datagrams 28")
	}
	if m.has("statemachine") {
		add("4.2", "state machines at best", "46", m.bestAlone(0), "cycles", "an input")
		add("4.2", "their bandwidth", "71.1", 512/(m.bus(512)*us), "10^6 byte/s", "the bus alone")
		add("4.2", "with packets of 64 bytes", "41.3", 64/(m.best(64)*us), "10^6 byte/s",
			"without the switch, which packets that follow each other overlap")
		add("4.2", "with packets of 512 bytes", "65.2", 512/(m.best(512)*us), "10^6 byte/s", "likewise")
		add("4.2", "application to application, 16 bytes with a tag", "3.0", m.bestAlone(16)*us+tagged, "us", "")
	}
	return r, m.wrong
}

// print writes the conclusions for people.
func (r *conclusions) print(s *sheet) {
	lines := [][]string{{"section", "what the paper says", "printed", "steps", "unit", "holds", "note"}}
	for _, c := range r.Claims {
		holds := "no"
		if c.Holds {
			holds = "yes"
		}
		lines = append(lines, []string{c.Section, c.Says, c.text, fmt.Sprintf("%.2f", c.Model), c.Unit, holds, c.Note})
	}
	s.table(lines...)
	s.line("\nprofile %s: %d of %s hold, to one of the last digit that is printed", r.Profile, r.Hold,
		output.Count(len(r.Claims), "claim"))
}
