package hwprofiles

// This file checks a profile as a whole.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalid is wrapped by every error about what a profile says.
var ErrInvalid = errors.New("invalid profile")

const (
	maxName  = 32  // bytes of a profile's name
	maxText  = 200 // bytes of a line of text
	maxCosts = 1000
	maxSteps = 1000
	maxShare = 1_000_000 * One
)

// Check returns an error if something is wrong with the profile: a figure out of its range, a
// figure without the clock or the other figure that it needs, or a malformed text. The error is one
// line and wraps ErrInvalid.
func (p *Profile) Check() error {
	return p.check(func(string) string { return fmt.Sprintf("profile %q", clip(p.Name)) })
}

// check is Check with a function at that says where a key is. Of several faults it reports the
// first in the order of the figures, so that equal profiles have equal errors.
func (p *Profile) check(at func(key string) string) error {
	bad := func(key, format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", at(key), fmt.Sprintf(format, args...), ErrInvalid)
	}
	if !isName(p.Name) {
		return bad("name", "name %q, want at most %d letters, digits and dashes", clip(p.Name), maxName)
	}
	if !isLine(p.About) {
		return bad("about", "about is %q, want one line of at most %d bytes", clip(p.About), maxText)
	}
	for i := range figures {
		f := &figures[i]
		if !f.good(p) {
			text := strings.Trim(strconv.Quote(f.text(p)), `"`) // a topology may be any text
			return bad(f.key, "%s is %s, want %s", f.key, clip(text), f.want())
		}
		if n, ok := f.at(p).(*Cycles); ok && *n != 0 && f.clock(p) == 0 {
			return bad(f.key, "%s is %v, but the clock that these cycles are of is 0; give its megahertz", f.key, *n)
		}
	}
	if key, why := p.contradiction(); key != "" {
		return bad(key, "%s", why)
	}
	if key, why := p.virtualContradiction(); key != "" {
		return bad(key, "%s", why)
	}
	if err := p.checkCosts(bad); err != nil {
		return err
	}
	if err := p.checkSteps(bad); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(p.Sources)) {
		switch text := p.Sources[key]; {
		case !known(key):
			return bad("sources."+key,
				"a source for %q, want the key of a figure, such as cpu.clock_mhz, or costs, or steps", clip(key))
		case text == "" || !isLine(text):
			return bad("sources."+key, "the source of %s is %q, want one line of at most %d bytes", key,
				clip(text), maxText)
		}
	}
	return nil
}

// contradiction returns the first figure that contradicts another one, and why.
func (p *Profile) contradiction() (key, why string) {
	cpu, bus, card, net := &p.CPU, &p.Bus, &p.Card, &p.Network
	word := bus.Transaction(1)
	switch {
	case bus.Clock != 0 && (len(bus.Bursts) == 0 || bus.Bursts[0] != 1):
		return "bus.bursts",
			"bus.bursts must begin with 1, so that any number of words can be moved; write for example [1, 4, 8]"
	case bus.Clock == 0 && len(bus.Bursts) != 0:
		return "bus.bursts", "bus.bursts needs a bus; give bus.clock_mhz, or write []"
	case bus.QueueBurst != 0 && !slices.Contains(bus.Bursts, bus.QueueBurst):
		return "bus.queue_burst", fmt.Sprintf("bus.queue_burst is %d, want one of bus.bursts, or 0 for any",
			bus.QueueBurst)
	case bus.Clock != 0 && cpu.Clock.Duration(cpu.UncachedReadCycles) < word:
		return "cpu.uncached_read_cycles",
			fmt.Sprintf("cpu.uncached_read_cycles is %v, %v; a read of one word ends with its bus transaction, so write cycles that take at least %v",
				cpu.UncachedReadCycles, cpu.Clock.Duration(cpu.UncachedReadCycles), word)
	case (card.Lines == 0) != (card.ReplyLines == 0) || card.ReplyLines != 0 && card.ReplyLines >= card.Lines:
		return "card.reply_lines",
			fmt.Sprintf("card.reply_lines is %d of %d lines, want at least one for each level, or 0 of 0",
				card.ReplyLines, card.Lines)
	case card.TransferWords%4 != 0:
		return "card.transfer_words", fmt.Sprintf("card.transfer_words is %d, want a multiple of 4", card.TransferWords)
	case card.RemotePageBytes&(card.RemotePageBytes-1) != 0:
		return "card.remote_page_bytes", fmt.Sprintf("card.remote_page_bytes is %d, want a power of two",
			card.RemotePageBytes)
	case card.BlockBytes%16 != 0:
		return "card.block_bytes", fmt.Sprintf("card.block_bytes is %d, want a multiple of 16", card.BlockBytes)
	case card.BlockBytes != 0 && !card.Blocks:
		return "card.block_bytes",
			fmt.Sprintf("card.block_bytes is %d, but card.blocks is false; write true, or 0 bytes", card.BlockBytes)
	case card.BlockBytes == 0 && card.Blocks && len(p.Steps) > 0:
		return "card.block_bytes",
			"card.blocks is true, and the machine's times are steps, of blocks that are no longer than card.block_bytes: write 64 to 1024 bytes"
	case (card.WindowEntriesCached == 0) != (card.WindowEntryWords == 0):
		return "card.window_entry_words",
			fmt.Sprintf("card.window_entry_words is %d and card.window_entries_cached %d; give both, or write 0 and 0 for a card that holds all",
				card.WindowEntryWords, card.WindowEntriesCached)
	case card.Blocks && card.TransferWords != 0:
		return "card.blocks",
			fmt.Sprintf("card.blocks is true, so that transfers fill frames, but card.transfer_words is %d; write false, or 0 words", card.TransferWords)
	case net.Clock != 0 && net.HalfwordsPerCycle == 0 && p.IO == IO{}:
		return "network.halfwords_per_cycle",
			"network.halfwords_per_cycle is 0, but the network has a clock; write 1 or more"
	case net.Clock == 0 && net.HalfwordsPerCycle != 0:
		return "network.halfwords_per_cycle", "network.halfwords_per_cycle needs network.clock_mhz; give it, or write 0"
	case net.RouterPorts != 0 && net.RouterPorts != 4 && net.RouterPorts != 8:
		return "network.router_ports",
			fmt.Sprintf("network.router_ports is %d, want 4 or 8, which Arctic routers have, or 0", net.RouterPorts)
	case (net.InputBuffers == 0) != (net.ReservedBuffers == 0) ||
		net.ReservedBuffers != 0 && net.ReservedBuffers >= net.InputBuffers:
		return "network.reserved_buffers",
			fmt.Sprintf("network.reserved_buffers is %d of %d, want at least one for each level, or 0 of 0",
				net.ReservedBuffers, net.InputBuffers)
	}
	return "", ""
}

func (p *Profile) checkCosts(bad func(key, format string, args ...any) error) error {
	if len(p.Costs) > maxCosts {
		return bad("costs", "%d costs, at most %d", len(p.Costs), maxCosts)
	}
	type name struct{ call, measure string }
	seen := make(map[name]bool)
	for i, c := range p.Costs {
		key := costKey(i)
		switch {
		case !isWord(c.Call):
			return bad(key+".call", "call %q, want a name of letters, digits, '_', '-' and '='", clip(c.Call))
		case !isWord(c.Measure):
			return bad(key+".measure", "measure %q, want a name of letters, digits, '_', '-' and '='", clip(c.Measure))
		case c.Cycles < 1 || c.Cycles > maxCycles:
			return bad(key+".cycles", "cycles is %v, want %v to %v with at most 1 decimal", c.Cycles,
				Cycles(1), maxCycles)
		case c.Bytes < 0 || c.Bytes > 1<<20:
			return bad(key+".bytes", "bytes is %d, want 0 (the cost of a call) to %d", c.Bytes, 1<<20)
		case p.CPU.Clock == 0:
			return bad(key+".cycles", "costs are in cycles of the CPU, but its clock is 0; give cpu.clock_mhz")
		}
		n := name{c.Call, c.Measure}
		if seen[n] {
			return bad(key, "the cost of %s, %s, is given twice", c.Call, c.Measure)
		}
		seen[n] = true
	}
	return nil
}

func (p *Profile) checkSteps(bad func(key, format string, args ...any) error) error {
	if len(p.Steps) > maxSteps {
		return bad("steps", "%d steps, at most %d", len(p.Steps), maxSteps)
	}
	seen := make(map[Step]bool)
	for i, s := range p.Steps {
		key := stepKey(i)
		for _, f := range []struct{ key, text string }{{"of", s.Of}, {"side", s.Side}} {
			if !isWord(f.text) {
				return bad(key+"."+f.key, "%s %q, want a name of letters, digits, '_', '-' and '='",
					f.key, clip(f.text))
			}
		}
		if s.Name == "" || !isLine(s.Name) {
			return bad(key+".step", "step %q, want one line of at most %d bytes", clip(s.Name), maxText)
		}
		clock := p.CPU.Clock
		switch {
		case s.Path != "on" && s.Path != "off":
			return bad(key+".path", "path %q, want on or off", clip(s.Path))
		case s.Unit == "cycles":
			clock = p.Bus.Clock
		case s.Unit == "network_cycles":
			clock = p.Network.Clock
		case s.Unit == "ns":
			clock = 1 // it needs none
		case s.Unit != "instructions" && s.Unit != "cpu_cycles":
			return bad(key+".unit",
				"unit %q, want instructions or cpu_cycles, which are the CPU's, cycles, which are the bus's, network_cycles or ns", clip(s.Unit))
		}
		if clock == 0 {
			return bad(key+".unit",
				"instructions and cpu_cycles are the CPU's, cycles the bus's and network_cycles the network's, but that clock is 0; give cpu.clock_mhz, bus.clock_mhz or network.clock_mhz")
		}
		for _, f := range []struct {
			key string
			v   Share
		}{{"base", s.Base}, {"data_byte", s.DataByte}, {"metadata_byte", s.MetadataByte}} {
			if f.v < 0 || f.v > maxShare {
				return bad(key+"."+f.key, "%s is %v, want 0 to %v with at most 4 decimals", f.key, f.v, maxShare)
			}
		}
		n := Step{Of: s.Of, Side: s.Side, Name: s.Name, Path: s.Path}
		if seen[n] {
			return bad(key, "the step %s of %s, %s, %s, is given twice", clip(s.Name), s.Of, s.Side, s.Path)
		}
		seen[n] = true
	}
	return nil
}

func stepKey(i int) string { return fmt.Sprintf("steps.%d", i) }
func costKey(i int) string { return fmt.Sprintf("costs.%d", i) }

func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) && r != '-' })
}

func isWord(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return !plain(r) && !strings.ContainsRune("_-=", r)
	})
}

func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isLine reports whether a terminal prints s on one line.
func isLine(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r)
	})
}

// clip bounds the part of its input that an error repeats.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
