package hwprofiles

// This file tests what a file may say, and that everything else is refused where it stands.

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// edited returns the file of sbus-arctic with one text of it replaced.
func edited(t testing.TB, old, new string) string {
	t.Helper()
	data, err := embedded.ReadFile("sbus-arctic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("sbus-arctic.yaml has no %q", old)
	}
	return strings.Replace(string(data), old, new, 1)
}

// A wrong figure in a real file is refused at its value, with what to write instead.
func TestFiguresRefused(t *testing.T) {
	for _, c := range []struct{ old, new, at, want string }{
		// Wrong types.
		{"clock_mhz: 40 ", "clock_mhz: fast", "11:14",
			`cpu.clock_mhz is the text "fast", want megahertz from 0 (takes no time) or 0.001 to 100000 with at most 3 decimals`},
		{"clock_mhz: 40 ", "clock_mhz: '40'", "11:14", `cpu.clock_mhz is the text "40", want megahertz`},
		{"clock_mhz: 40 ", "clock_mhz: ", "11:13", `cpu.clock_mhz is nothing, want megahertz`},
		{"clock_mhz: 40 ", "clock_mhz: -40", "11:14", `cpu.clock_mhz is -40, want megahertz`},
		{"clock_mhz: 40 ", "clock_mhz: 4e1", "11:14", `cpu.clock_mhz is the text "4e1", want`},
		{"clock_mhz: 40 ", "clock_mhz: 0x28", "11:14", `cpu.clock_mhz is 0x28, want`},
		{"clock_mhz: 40 ", "clock_mhz: 040", "11:14", `cpu.clock_mhz is 040, want`},
		{"clock_mhz: 40 ", "clock_mhz: .inf", "11:14", `cpu.clock_mhz is a infinity, want`},
		{"clock_mhz: 40 ", "clock_mhz: 40.0001", "11:14", `cpu.clock_mhz is 40.0001, want`},
		{"clock_mhz: 40 ", "clock_mhz: 99999999999999999999", "11:14",
			`cpu.clock_mhz is the text "99999999999999999999", want`},
		{"clock_mhz: 40 ", "clock_mhz: [40]", "11:14", `cpu.clock_mhz is a list, want`},
		{"clock_mhz: 40 ", "clock_mhz: {mhz: 40}", "11:14", `cpu.clock_mhz is a mapping, want`},
		{"clock_mhz: 40 ", "clock_mhz: &a 40", "11:14", `cpu.clock_mhz is an anchor or alias, want`},
		{"clock_mhz: 40 ", "clock_mhz: !!int 40", "11:14", `cpu.clock_mhz is a tag, want`},
		{"clock_mhz: 40 ", "clock_mhz: |\n    40", "11:14", `cpu.clock_mhz is a literal, want`},
		{"read_cycles: 27.2", "read_cycles: 27.25", "15:25",
			`cpu.uncached_read_cycles is 27.25, want cycles from 0 to 1000000 with at most 1 decimal`},
		{"read_cycles: 27.2", "read_cycles: true", "15:25", `cpu.uncached_read_cycles is true, want cycles`},
		{"queues_uncached: true", "queues_uncached: yes", "17:20",
			`cpu.queues_uncached is the text "yes", want true or false`},
		{"queues_uncached: true", "queues_uncached: 1", "17:20", `cpu.queues_uncached is 1, want true or false`},
		{"bursts: [1, 4, 8]", "bursts: 8", "23:11",
			`bus.bursts is 8, want a list of at most 16 rising whole numbers from 1 to 4096, such as [1, 4, 8], or []`},
		{"bursts: [1, 4, 8]", "bursts: [1, 4.5]", "23:11", `bus.bursts is a list, want a list of at most 16 rising`},
		{"bursts: [1, 4, 8]", "bursts: [" + strings.Repeat("1, ", 17) + "]", "23:11",
			`bus.bursts is a list, want a list of at most 16`},
		{"lines: 8 ", "lines: 8.5", "28:10", `card.lines is 8.5, want a whole number, 0 (no limit) or 2 to 4096`},
		{"topology: hypercube", "topology: torus", "57:13",
			`network.topology is the text "torus", want any, hypercube or crossbar`},
		// Out of range.
		{"clock_mhz: 40 ", "clock_mhz: 100000.001", "11:14", `cpu.clock_mhz is 100000.001, want`},
		{"read_cycles: 27.2", "read_cycles: 1000000.1", "15:25", `cpu.uncached_read_cycles is 1000000.1, want`},
		{"lines: 8 ", "lines: 1", "28:10", `card.lines is 1, want a whole number, 0 (no limit) or 2 to 4096`},
		{"lines: 8 ", "lines: 4097", "28:10", `card.lines is 4097, want`},
		{"train_packets: 1", "train_packets: 65", "32:18",
			`card.train_packets is 65, want a whole number, 0 (no limit) or 1 to 64`},
		{"transfer_words: 20", "transfer_words: 24", "36:19",
			`card.transfer_words is 24, want a whole number, 0 (no limit) or 4 to 20`},
		{"types: 512", "types: 16385", "37:10", `card.types is 16385, want`},
		{"bursts: [1, 4, 8]", "bursts: [1, 8, 4]", "23:11",
			`bus.bursts is [1, 8, 4], want a list of at most 16 rising`},
		{"bursts: [1, 4, 8]", "bursts: [0, 1]", "23:11", `bus.bursts is [0, 1], want`},
		// Figures that contradict each other.
		{"clock_mhz: 40 ", "clock_mhz: 0", "12:23",
			`cpu.instruction_cycles is 1, but the clock that these cycles are of is 0; give its megahertz`},
		{"read_cycles: 27.2", "read_cycles: 27.1", "15:25",
			`cpu.uncached_read_cycles is 27.1, 678ns; a read of one word ends with its bus transaction, so write cycles that take at least 680ns`},
		{"bursts: [1, 4, 8]", "bursts: [4, 8]", "23:11", `bus.bursts must begin with 1`},
		{"bursts: [1, 4, 8]", "bursts: []", "23:11", `bus.bursts must begin with 1`},
		{"reply_lines: 2", "reply_lines: 8", "29:16",
			`card.reply_lines is 8 of 8 lines, want at least one for each level, or 0 of 0`},
		{"reply_lines: 2", "reply_lines: 0", "29:16", `card.reply_lines is 0 of 8 lines`},
		{"remote_page_bytes: 0", "remote_page_bytes: 65", "38:22", `card.remote_page_bytes is 65, want a power of two`},
		{"remote_page_bytes: 0", "remote_page_bytes: 32", "38:22",
			`card.remote_page_bytes is 32, want a whole number, 0 (no limit) or 64 to 65536`},
		{"window_entries_cached: 0", "window_entries_cached: 4", "40:23",
			`card.window_entry_words is 0 and card.window_entries_cached 4; give both`},
		{"transfer_words: 20", "transfer_words: 18", "36:19", `card.transfer_words is 18, want a multiple of 4`},
		{"blocks: false", "blocks: true", "33:11",
			`card.blocks is true, so that transfers fill frames, but card.transfer_words is 20; write false, or 0 words`},
		{"block_bytes: 0", "block_bytes: 512", "34:16",
			`card.block_bytes is 512, but card.blocks is false; write true, or 0 bytes`},
		{"block_bytes: 0", "block_bytes: 520", "34:16", `card.block_bytes is 520, want a multiple of 16`},
		{"block_bytes: 0", "block_bytes: 2048", "34:16",
			`card.block_bytes is 2048, want a whole number, 0 (no limit) or 64 to 1024`},
		{"router_ports: 4", "router_ports: 5", "54:17", `network.router_ports is 5, want 4 or 8`},
		{"halfwords_per_cycle: 2", "halfwords_per_cycle: 0", "51:24",
			`network.halfwords_per_cycle is 0, but the network has a clock; write 1 or more`},
		{"reserved_buffers: 1", "reserved_buffers: 3", "56:21",
			`network.reserved_buffers is 3 of 3, want at least one for each level`},
		// Keys and sources.
		{"clock_mhz: 40 ", "clock_ghz: 40", "11:3", `unknown key "clock_ghz", want clock_mhz, instruction_cycles,`},
		{"clock_mhz: 40 ", "Clock_mhz: 40", "11:3", `unknown key "Clock_mhz", want clock_mhz`},
		{"clock_mhz: 40 ", "# 40", "12:3",
			`cpu has no clock_mhz; add it (megahertz from 0 (takes no time) or 0.001 to 100000 with at most 3 decimals), or leave the whole section out`},
		{"clock_mhz: 40 ", "<<: {clock_mhz: 40}", "11:3", `unknown key "<<"`},
		{"load_double_cycles: 2", "clock_mhz: 40", "13:3",
			`key given twice: "clock_mhz" is at p.yaml:11:3 already; keep one`},
		{"\ncpu:", "\ncpus:", "10:1",
			`unknown key "cpus", want name, about, costs, steps, sources, cpu, bus, card, units, network`},
		{"\nbus:", "\ncpu:", "19:1", `key given twice: "cpu" is at p.yaml:10:1 already; keep one`},
		{"\nname: sbus-arctic", "", "7:1", `no name; add name: and a line of text`},
		{"name: sbus-arctic", "name: my profile", "7:7",
			`name "my profile", want at most 32 letters, digits and dashes`},
		{"name: sbus-arctic", "name: [a]", "7:7", `name is a list, want one value`},
		{"about: \"", `about: "\n`, "8:8", `about is "\nFUNi on SBus in a 40 MHz`},
		{"  cpu.clock_mhz: \"", `  cpu.clock: "`, "71:3",
			`unknown key "cpu.clock", want the keys of figures, such as cpu.clock_mhz, or costs`},
		{"  cpu.load_double_cycles: \"thesis 6.1.1\"", "  cpu.load_double_cycles: \"\"", "73:27",
			`the source of cpu.load_double_cycles is "", want one line of at most 200 bytes`},
	} {
		p, err := Parse("p.yaml", []byte(edited(t, c.old, c.new)))
		want := fmt.Sprintf("p.yaml:%s: %s", c.at, c.want)
		if p != nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\n\twant %s", c.new, err, want)
		}
	}
}

// So is a file of another shape.
func TestFilesRefused(t *testing.T) {
	const head = "name: a\nabout: b\n"
	const cost = head +
		"cpu: {clock_mhz: 33, instruction_cycles: 1, load_double_cycles: 2, flow_cycles: 2, uncached_read_cycles: 0, uncached_write_cycles: 0, queues_uncached: false}\ncosts:\n"
	for _, c := range []struct{ text, want string }{
		{"", "p.yaml: empty; `funet profile show native --yaml` prints a profile to start from"},
		{"# nothing\n", "p.yaml: empty"},
		{"hello\n", `p.yaml:1:1: the text "hello", want the keys name, about`},
		{"- 1\n", "p.yaml:1:1: a list, want the keys"},
		{head + "cpu: 40\n", "p.yaml:3:6: 40, want the keys clock_mhz"},
		{head + "cpu:\n", "p.yaml:3:6: nothing, want the keys clock_mhz"},
		{head + "cpu: {}\n", "p.yaml:3:6: cpu has no clock_mhz"},
		{head + "---\n" + head, "p.yaml:4:1: a second YAML document; a profile is one"},
		{head + "sources: 1\n", "p.yaml:3:10: 1, want the keys of figures, such as cpu.clock_mhz"},
		{head + "sources: {cpu.clock_mhz: [a]}\n", "p.yaml:3:26: cpu.clock_mhz is a list, want one value"},
		{head + "costs: 7\n",
			"p.yaml:3:8: costs is 7, want a list of {call: NAME, measure: NAME, cycles: 50.7, bytes: 0}"},
		{head + "costs: [1]\n", "p.yaml:3:9: 1, want the keys call, measure, cycles, bytes"},
		{head + "costs: [{call: a, measure: b, cycles: 1, bytes: 0}]\n",
			"p.yaml:3:39: costs are in cycles of the CPU, but its clock is 0; give cpu.clock_mhz"},
		{cost + "- {call: a, measure: b, cycles: 1}\n",
			"p.yaml:5:3: a cost has no bytes; each has call, measure, cycles and bytes"},
		{cost + "- call: a\n  measure: b\n  cycles: 1\n", "p.yaml:5:3: a cost has no bytes"},
		{cost + "- call: a\n", "p.yaml:5:3: a cost has no measure"},
		{cost + "- {call: [a], measure: b, cycles: 1, bytes: 0}\n", "p.yaml:5:10: call is a list, want one value"},
		{cost + "- {call: a, measure: , cycles: 1, bytes: 0}\n", "p.yaml:5:21: measure is nothing, want one value"},
		{head + "bus: {clock_mhz: 25, transaction_cycles: 15, word_cycles: 2, bursts: [1], cpu_first: true}\n",
			"p.yaml: cpu.uncached_read_cycles is 0, 0s; a read of one word"},
		{"name: a\n", "p.yaml:1:1: no about; add about: and a line of text"},
		{cost + "- {call: a, measure: b, cycles: 0, bytes: 0}\n",
			"p.yaml:5:33: cycles is 0, want 0.1 to 1000000 with at most 1 decimal"},
		{cost + "- {call: a, measure: b, cycles: many, bytes: 0}\n",
			`p.yaml:5:33: cycles is the text "many", want 0.1 to 1000000`},
		{cost + "- {call: a, measure: b, cycles: 1, bytes: -1}\n", "p.yaml:5:43: bytes is -1, want a whole number"},
		{cost + "- {call: a, measure: b, cycles: 1, bytes: 1048577}\n",
			"p.yaml:5:43: bytes is 1048577, want 0 (the cost of a call) to 1048576"},
		{cost + "- {call: a b, measure: b, cycles: 1, bytes: 0}\n",
			`p.yaml:5:10: call "a b", want a name of letters, digits`},
		{cost + "- {call: a, measure: '', cycles: 1, bytes: 0}\n", `p.yaml:5:22: measure "", want a name`},
		{cost + "- {call: a, measure: b, cycles: 1, bytes: 0}\n- {call: a, measure: b, cycles: 2, bytes: 0}\n",
			"p.yaml:6:3: the cost of a, b, is given twice"},
		{cost + strings.Repeat("- {call: a, measure: b, cycles: 1, bytes: 0}\n", 1001),
			"p.yaml:5:1: 1001 costs, at most 1000"},
		{head + "about: c\n", `p.yaml:3:1: key given twice: "about" is at p.yaml:2:1 already; keep one`},
		{"&a {name: a, about: b}\n", "p.yaml:1:1: an anchor or alias, want the keys"},
		{head + "cpu: *a\n", "p.yaml:3:6: "},
		{head + "cpu: {clock_mhz: 1\n", "p.yaml:3:6: "},
		{head + "\tcpu: 1\n", "p.yaml:3:1: "},
		{strings.Repeat("[", 1000), "p.yaml:1:33: nested deeper than a profile can be"},
		{"#\n" + strings.Repeat("- ", 1000), "p.yaml:2:65: nested deeper"},
		{strings.Repeat("#", MaxBytes+1), "p.yaml: more than 65536 bytes"},
	} {
		p, err := Parse("p.yaml", []byte(c.text))
		if p != nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\n\twant %s", c.text[:min(len(c.text), 400)], err, c.want)
		}
	}
}

// A Profile that a program made is checked by the same rules.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Profile){
		`profile "": name ""`:                              func(p *Profile) { p.Name = "" },
		`profile "a\nb": name "a\nb"`:                      func(p *Profile) { p.Name = "a\nb" },
		`profile "sbus-arctic": card.lines is -9223372036`: func(p *Profile) { p.Card.Lines = -1 << 63 },
		`profile "sbus-arctic": cpu.clock_mhz is -922337`:  func(p *Profile) { p.CPU.Clock = -1 << 63 },
		`profile "sbus-arctic": bus.word_cycles is -0.1`:   func(p *Profile) { p.Bus.WordCycles = -1 },
		`profile "sbus-arctic": network.topology is a\nb,`: func(p *Profile) { p.Network.Topology = "a\nb" },
		`profile "sbus-arctic": bus.bursts needs a bus`:    func(p *Profile) { p.Bus = Bus{Bursts: []int{1}} },
		`profile "sbus-arctic": units.transmit_cycles is 1, but the clock`: func(p *Profile) {
			p.Network, p.Units.TransmitCycles = Network{}, Cycle
		},
		`profile "sbus-arctic": network.halfwords_per_cycle needs`: func(p *Profile) {
			p.Network = Network{HalfwordsPerCycle: 2}
		},
		`profile "sbus-arctic": about is "xxx`:         func(p *Profile) { p.About = strings.Repeat("x", 201) },
		`profile "sbus-arctic": bus.bursts is [1, 1],`: func(p *Profile) { p.Bus.Bursts = []int{1, 1} },
		`profile "sbus-arctic": bus.bursts is [1, 2,`: func(p *Profile) {
			p.Bus.Bursts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
		},
		`profile "sbus-arctic": a source for "b\nc"`: func(p *Profile) { p.Sources = map[string]string{"b\nc": "d"} },
	} {
		p := load(t, "sbus-arctic")
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		change(p)
		err := p.Check()
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
		if data, again := p.Marshal(); data != nil || again == nil || !strings.HasSuffix(again.Error(), err.Error()) {
			t.Errorf("Marshal writes what Check refuses: %v", again)
		}
	}
}

// random draws a profile that obeys the rules.
func random(t *rapid.T) *Profile {
	line := rapid.StringMatching(`[ -~äπ€😀]{0,40}`)
	word := rapid.StringMatching(`[A-Za-z0-9_=-]{1,12}`)
	p := &Profile{
		Name: rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9-]{1,32}`),
			rapid.SampledFrom([]string{"null", "true", "007", "1e3", "-", "---"})).Draw(t, "name"),
		About: line.Draw(t, "about"),
	}
	clock := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(20_000, 4_000_000))
	p.CPU.Clock = Clock(max(clock.Draw(t, "cpu kHz"), 1000)) // costs and uncached reads need one
	p.Bus.Clock, p.Network.Clock = Clock(clock.Draw(t, "bus kHz")), Clock(clock.Draw(t, "network kHz"))
	p.Units.Clock, p.Ultra.Clock = Clock(clock.Draw(t, "units kHz")), Clock(clock.Draw(t, "ultra kHz"))
	for i := range figures {
		f := &figures[i]
		switch v := f.at(p).(type) {
		case *time.Duration:
			*v = time.Duration(rapid.Int64Range(f.min, f.max).Draw(t, f.key))
		case *[]string:
			for _, name := range ModeBits() {
				if rapid.Bool().Draw(t, name) {
					*v = append(*v, name)
				}
			}
		case *Cycles:
			if f.clock(p) != 0 {
				*v = Cycles(rapid.Int64Range(0, 1000).Draw(t, f.key))
			}
		case *int:
			*v = int(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(f.min, f.max)).Draw(t, f.key))
		case *bool:
			*v = rapid.Bool().Draw(t, f.key)
		case *Topology:
			*v = rapid.SampledFrom([]Topology{"", Hypercube}).Draw(t, f.key)
		}
		if rapid.Bool().Draw(t, "sourced") {
			if p.Sources == nil {
				p.Sources = map[string]string{}
			}
			p.Sources[f.key] = line.Filter(func(s string) bool { return s != "" }).Draw(t, "source")
		}
	}
	agree(t, p)
	agreeVirtual(t, p)
	for i := range rapid.IntRange(0, 5).Draw(t, "costs") {
		p.Costs = append(p.Costs, Cost{fmt.Sprint(i) + word.Draw(t, "call"), word.Draw(t, "measure"),
			Cycles(rapid.Int64Range(1, int64(maxCycles)).Draw(t, "cost")), rapid.IntRange(0, 1<<20).Draw(t, "bytes")})
	}
	return p
}

// agree changes the figures that others bind until they do not contradict them.
func agree(t *rapid.T, p *Profile) {
	if p.Bus.Clock != 0 {
		p.Bus.Bursts = []int{1}
		for range rapid.IntRange(0, maxBursts-1).Draw(t, "bursts") {
			p.Bus.Bursts = append(p.Bus.Bursts, p.Bus.Bursts[len(p.Bus.Bursts)-1]+rapid.IntRange(1,
				100).Draw(t, "more"))
		}
		p.Bus.QueueBurst = rapid.SampledFrom(append([]int{0}, p.Bus.Bursts...)).Draw(t, "queue burst")
	}
	if p.Bus.Clock == 0 {
		p.Bus.QueueBurst = 0
	}
	p.CPU.UncachedReadCycles += Cycles(int64(p.Bus.Transaction(1)+1)*int64(p.CPU.Clock)/tenth + 1)
	less := func(reserved *int, all int) {
		if *reserved = 0; all != 0 {
			*reserved = rapid.IntRange(1, all-1).Draw(t, "reserved")
		}
	}
	less(&p.Card.ReplyLines, p.Card.Lines)
	less(&p.Network.ReservedBuffers, p.Network.InputBuffers)
	if p.Card.TransferWords -= p.Card.TransferWords % 4; p.Card.TransferWords != 0 {
		p.Card.Blocks = false
	}
	if p.Card.BlockBytes -= p.Card.BlockBytes % 16; !p.Card.Blocks {
		p.Card.BlockBytes = 0
	} else if len(p.Steps) > 0 {
		p.Card.BlockBytes = max(p.Card.BlockBytes, 64)
	}
	p.Card.WindowEntriesCached, p.Card.WindowEntryWords = 0, 0
	if rapid.Bool().Draw(t, "fetches entries") {
		p.Card.WindowEntriesCached, p.Card.WindowEntryWords = rapid.IntRange(1, 1<<16).Draw(t, "entries"),
			rapid.IntRange(1, 16).Draw(t, "entry words")
	}
	p.Card.RemotePageBytes = rapid.SampledFrom([]int{0, 64, 4096, 1 << 16}).Draw(t, "page")
	p.Network.RouterPorts = rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "ports")
	if p.Network.HalfwordsPerCycle = 0; p.Network.Clock != 0 {
		p.Network.HalfwordsPerCycle = rapid.IntRange(1, 64).Draw(t, "halfwords")
	}
}

// What Marshal writes, Parse reads as the same profile.
func TestRoundTrip(t *testing.T) {
	same := func(t rapid.TB, p *Profile) {
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("p.yaml", data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("%s in\n%s", diff, data)
		}
	}
	for _, name := range Names() {
		same(t, load(t, name))
	}
	rapid.Check(t, func(t *rapid.T) {
		same(t, random(t))
	})
}

// Any bytes give an error of one line or a profile that is valid and can be written and read
// again; never a panic.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, err := embedded.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{"", virtualHead + ultraLine, virtualHead + "ultra: {path_ns: .nan}\n",
		virtualHead + "card: {vpids: 99999999999999999999, csb_entries: -.inf}\n",
		virtualHead + "units: {requesters: 0x10, stages: 1e9, clock_mhz: 0.0001}\n", "name: a\nabout: b\n", "? a\n: b", "&a [*a]", "!!map {", "a: |\n b\n",
		"%YAML 1.2\n---\nname:\n...\n", "\xff\xfe", "<<: *x", "- - - -\n -", "{a: [b, {c: ]}",
		"name: a\nabout: b\ncosts: [{call: a, measure: b, cycles: 1.5, bytes: 0}]\nsources: {costs: \"\\u2028\"}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("f", data)
		if err != nil {
			if p != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%+v, %q", p, err)
			}
			return
		}
		again, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse("f", again)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := q.Marshal(); err != nil || string(twice) != string(again) {
			t.Fatalf("written again it is another file (%v)", err)
		}
	})
}
