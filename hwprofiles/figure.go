package hwprofiles

// This file is the list of figures: the key, the place in a Profile and the range of each.
// Reading, checking, writing and showing all use the list.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type figure struct {
	key      string // section.name
	at       func(*Profile) any
	min, max int64                // of a number, in the unit of its type; besides 0
	clock    func(*Profile) Clock // which its cycles are of; nil: it is no time
}

const (
	maxClock  = 100_000_000       // kHz: 100 GHz
	maxCycles = 1_000_000 * Cycle // at 1 kHz not yet 20 minutes
	maxBurst  = 4096              // words
	maxBursts = 16
)

func cpuClock(p *Profile) Clock     { return p.CPU.Clock }
func busClock(p *Profile) Clock     { return p.Bus.Clock }
func networkClock(p *Profile) Clock { return p.Network.Clock }
func ultraClock(p *Profile) Clock   { return p.Ultra.Clock }

// figures has all figures, in the order of the file. The limits of the card are those of the engine
// and of packets.
var figures = []figure{
	{"cpu.clock_mhz", func(p *Profile) any { return &p.CPU.Clock }, 1, maxClock, nil},
	{"cpu.instruction_cycles", func(p *Profile) any { return &p.CPU.InstructionCycles }, 0, int64(maxCycles), cpuClock},
	{"cpu.load_double_cycles", func(p *Profile) any { return &p.CPU.LoadDoubleCycles }, 0, int64(maxCycles), cpuClock},
	{"cpu.flow_cycles", func(p *Profile) any { return &p.CPU.FlowCycles }, 0, int64(maxCycles), cpuClock},
	{"cpu.uncached_read_cycles", func(p *Profile) any { return &p.CPU.UncachedReadCycles }, 0,
		int64(maxCycles), cpuClock},
	{"cpu.uncached_write_cycles", func(p *Profile) any { return &p.CPU.UncachedWriteCycles }, 0,
		int64(maxCycles), cpuClock},
	{"cpu.queues_uncached", func(p *Profile) any { return &p.CPU.QueuesUncached }, 0, 0, nil},

	{"bus.clock_mhz", func(p *Profile) any { return &p.Bus.Clock }, 1, maxClock, nil},
	{"bus.transaction_cycles", func(p *Profile) any { return &p.Bus.TransactionCycles }, 0, int64(maxCycles), busClock},
	{"bus.word_cycles", func(p *Profile) any { return &p.Bus.WordCycles }, 0, int64(maxCycles), busClock},
	{"bus.bursts", func(p *Profile) any { return &p.Bus.Bursts }, 1, maxBurst, nil},
	{"bus.queue_burst", func(p *Profile) any { return &p.Bus.QueueBurst }, 1, maxBurst, nil},
	{"bus.cpu_first", func(p *Profile) any { return &p.Bus.CPUFirst }, 0, 0, nil},

	{"card.lines", func(p *Profile) any { return &p.Card.Lines }, 2, 4096, nil},
	{"card.reply_lines", func(p *Profile) any { return &p.Card.ReplyLines }, 1, 4095, nil},
	{"card.contexts", func(p *Profile) any { return &p.Card.Contexts }, 1, 65536, nil},
	{"card.fifo_packets", func(p *Profile) any { return &p.Card.FIFOPackets }, 1, 65536, nil},
	{"card.train_packets", func(p *Profile) any { return &p.Card.TrainPackets }, 1, 64, nil},
	{"card.blocks", func(p *Profile) any { return &p.Card.Blocks }, 0, 0, nil},
	{"card.block_bytes", func(p *Profile) any { return &p.Card.BlockBytes }, 64, 1024, nil},
	{"card.acknowledge_every_frames", func(p *Profile) any { return &p.Card.AcknowledgeEveryFrames }, 1, 32, nil},
	{"card.transfer_words", func(p *Profile) any { return &p.Card.TransferWords }, 4, 20, nil},
	{"card.types", func(p *Profile) any { return &p.Card.Types }, 1, 1 << 14, nil},
	{"card.remote_page_bytes", func(p *Profile) any { return &p.Card.RemotePageBytes }, 64, 1 << 16, nil},
	{"card.window_entries_cached", func(p *Profile) any { return &p.Card.WindowEntriesCached }, 1, 1 << 16, nil},
	{"card.window_entry_words", func(p *Profile) any { return &p.Card.WindowEntryWords }, 1, 16, nil},

	{"card.vpids", func(p *Profile) any { return &p.Card.VPIDs }, 1, 1 << 16, nil},
	{"card.entry_bytes", func(p *Profile) any { return &p.Card.EntryBytes }, 16, 4096, nil},
	{"card.trigger_count_max", func(p *Profile) any { return &p.Card.TriggerCountMax }, 1, 31, nil},
	{"card.csb_entries", func(p *Profile) any { return &p.Card.CSBEntries }, 1, 1 << 16, nil},
	{"card.rdr_bytes_max", func(p *Profile) any { return &p.Card.RDRBytesMax }, 64, 1 << 27, nil},
	{"card.fast_send_words64", func(p *Profile) any { return &p.Card.FastSendWords64 }, 1, 5, nil},
	{"card.fast_put_words64", func(p *Profile) any { return &p.Card.FastPutWords64 }, 1, 3, nil},
	{"card.routing_shared", func(p *Profile) any { return &p.Card.RoutingShared }, 0, 0, nil},

	{"units.retrieval_cycles", func(p *Profile) any { return &p.Units.RetrievalCycles }, 0, int64(maxCycles), busClock},
	{"units.dispatch_cycles", func(p *Profile) any { return &p.Units.DispatchCycles }, 0, int64(maxCycles), busClock},
	{"units.delivery_cycles", func(p *Profile) any { return &p.Units.DeliveryCycles }, 0, int64(maxCycles), busClock},
	{"units.transmit_cycles", func(p *Profile) any { return &p.Units.TransmitCycles }, 0,
		int64(maxCycles), networkClock},
	{"units.preprocess_cycles", func(p *Profile) any { return &p.Units.PreprocessCycles }, 0,
		int64(maxCycles), networkClock},
	{"units.clock_mhz", func(p *Profile) any { return &p.Units.Clock }, 1, maxClock, nil},
	{"units.requesters", func(p *Profile) any { return &p.Units.Requesters }, 1, maxUnits, nil},
	{"units.responders", func(p *Profile) any { return &p.Units.Responders }, 1, maxUnits, nil},
	{"units.completers", func(p *Profile) any { return &p.Units.Completers }, 1, maxUnits, nil},
	{"units.stages", func(p *Profile) any { return &p.Units.Stages }, 1, maxUnits, nil},
	{"units.wait_queue", func(p *Profile) any { return &p.Units.WaitQueue }, 1, 64, nil},
	{"units.issue_width", func(p *Profile) any { return &p.Units.IssueWidth }, 1, maxUnits, nil},

	{"network.clock_mhz", func(p *Profile) any { return &p.Network.Clock }, 1, maxClock, nil},
	{"network.halfwords_per_cycle", func(p *Profile) any { return &p.Network.HalfwordsPerCycle }, 1, 64, nil},
	{"network.router_cycles", func(p *Profile) any { return &p.Network.RouterCycles }, 0,
		int64(maxCycles), networkClock},
	{"network.wire_cycles", func(p *Profile) any { return &p.Network.WireCycles }, 0, int64(maxCycles), networkClock},
	{"network.router_ports", func(p *Profile) any { return &p.Network.RouterPorts }, 4, 8, nil},
	{"network.input_buffers", func(p *Profile) any { return &p.Network.InputBuffers }, 2, 64, nil},
	{"network.reserved_buffers", func(p *Profile) any { return &p.Network.ReservedBuffers }, 1, 63, nil},
	{"network.topology", func(p *Profile) any { return &p.Network.Topology }, 0, 0, nil},
	{"network.crossbar_cycles", func(p *Profile) any { return &p.Network.CrossbarCycles }, 0,
		int64(maxCycles), networkClock},
	{"network.ports", func(p *Profile) any { return &p.Network.Ports }, 1, 64, nil},
	{"network.wire_ns", func(p *Profile) any { return &p.Network.Wire }, 0, maxAccess, nil},

	{"library.loop_cycles", func(p *Profile) any { return &p.Library.LoopCycles }, 0, int64(maxCycles), cpuClock},
	{"library.block_cycles", func(p *Profile) any { return &p.Library.BlockCycles }, 0, int64(maxCycles), cpuClock},
	{"library.counter_cycles", func(p *Profile) any { return &p.Library.CounterCycles }, 0, int64(maxCycles), cpuClock},
	{"library.segment_cycles", func(p *Profile) any { return &p.Library.SegmentCycles }, 0, int64(maxCycles), cpuClock},

	{"options.group_words", func(p *Profile) any { return &p.Options.GroupWords }, 2, 20, nil},
	{"options.look_misses", func(p *Profile) any { return &p.Options.LookMisses }, 0, 0, nil},
	{"options.head_unwritten", func(p *Profile) any { return &p.Options.HeadUnwritten }, 0, 0, nil},

	{"io.register_read_ns", func(p *Profile) any { return &p.IO.RegisterRead }, 0, maxAccess, nil},
	{"io.trigger_device_ns", func(p *Profile) any { return &p.IO.TriggerDevice }, 0, maxAccess, nil},
	{"io.burst_write_ns", func(p *Profile) any { return &p.IO.BurstWrite }, 0, maxAccess, nil},
	{"io.memory_write_ns", func(p *Profile) any { return &p.IO.MemoryWrite }, 0, maxAccess, nil},
	{"io.access_ns", func(p *Profile) any { return &p.IO.Access }, 0, maxAccess, nil},

	{"ultra.clock_mhz", func(p *Profile) any { return &p.Ultra.Clock }, 1, maxClock, nil},
	{"ultra.requester_cycles", func(p *Profile) any { return &p.Ultra.RequesterCycles }, 0,
		int64(maxCycles), ultraClock},
	{"ultra.completer_cycles", func(p *Profile) any { return &p.Ultra.CompleterCycles }, 0,
		int64(maxCycles), ultraClock},
	{"ultra.path_ns", func(p *Profile) any { return &p.Ultra.Path }, 0, maxAccess, nil},
	{"ultra.upid_bits", func(p *Profile) any { return &p.Ultra.UPIDBits }, 1, 11, nil},
	{"ultra.line_bytes", func(p *Profile) any { return &p.Ultra.LineBytes }, 16, 64, nil},
	{"ultra.mode_bits", func(p *Profile) any { return &p.Ultra.ModeBits }, 0, 0, nil},
}

// sections are the first parts of the keys, in the order of the file.
var sections = []string{"cpu", "bus", "card", "units", "network", "library", "options", "io", "ultra"}

func known(key string) bool {
	return key == "costs" || key == "steps" || slices.ContainsFunc(figures, func(f figure) bool { return f.key == key })
}

func (f *figure) parts() (section, name string) {
	section, name, _ = strings.Cut(f.key, ".")
	return section, name
}

// want describes the values that may be written.
func (f *figure) want() string {
	switch f.at(new(Profile)).(type) {
	case *Clock:
		return fmt.Sprintf("megahertz from 0 (takes no time) or %v to %v with at most 3 decimals",
			Clock(f.min), Clock(f.max))
	case *Cycles:
		return fmt.Sprintf("cycles from %v to %v with at most 1 decimal", Cycles(f.min), Cycles(f.max))
	case *int:
		return fmt.Sprintf("a whole number, 0 (no limit) or %d to %d", f.min, f.max)
	case *time.Duration:
		return fmt.Sprintf("whole nanoseconds from %d to %d", f.min, f.max)
	case *[]string:
		return wantModes()
	case *bool:
		return "true or false"
	case *[]int:
		return fmt.Sprintf("a list of at most %d rising whole numbers from %d to %d, such as [1, 4, 8], or []",
			maxBursts, f.min, f.max)
	default:
		return "any, hypercube or crossbar"
	}
}

func (f *figure) text(p *Profile) string {
	switch v := f.at(p).(type) {
	case *Clock:
		return v.String()
	case *Cycles:
		return v.String()
	case *int:
		return strconv.Itoa(*v)
	case *time.Duration:
		return strconv.FormatInt(int64(*v), 10)
	case *[]string:
		return "[" + strings.Join(*v, ", ") + "]"
	case *bool:
		return strconv.FormatBool(*v)
	case *[]int:
		var words []string
		for _, n := range *v {
			words = append(words, strconv.Itoa(n))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case *Topology:
		if *v == "" {
			return "any"
		}
		return string(*v)
	}
	panic("hwprofiles: a figure of an unknown type") // figures is wrong, no input is
}

func (f *figure) good(p *Profile) bool {
	in := func(v int64) bool { return v == 0 || v >= f.min && v <= f.max }
	switch v := f.at(p).(type) {
	case *Clock:
		return in(int64(*v))
	case *Cycles:
		return in(int64(*v))
	case *int:
		return in(int64(*v))
	case *time.Duration:
		return in(int64(*v))
	case *[]string:
		return goodModes(*v)
	case *[]int:
		for i, n := range *v {
			if n < int(f.min) || n > int(f.max) || i > 0 && n <= (*v)[i-1] || i == maxBursts {
				return false
			}
		}
	case *Topology:
		return *v == "" || *v == Hypercube || *v == Crossbar
	}
	return true
}

// Figure is a figure of a profile, to be shown.
type Figure struct {
	Key    string // as in the file, with its unit
	Value  string // as in the file
	Source string // where it is from; empty: the file does not say

	Timed bool          // it is a time, and the next two hold
	Time  time.Duration // see Clock.Duration
	Exact bool          // Time is not rounded
}

// Figures returns all figures but Costs and Steps, in the order of the file. Those of the
// virtualised interface are there if the profile gives one of their section.
func (p *Profile) Figures() []Figure {
	var all []Figure
	for _, f := range p.given() {
		g := Figure{Key: f.key, Value: f.text(p), Source: p.Sources[f.key]}
		if n, ok := f.at(p).(*Cycles); ok {
			clock := f.clock(p)
			g.Timed, g.Time, g.Exact = true, clock.Duration(*n), clock.Exact(*n)
		}
		if d, ok := f.at(p).(*time.Duration); ok {
			g.Timed, g.Time, g.Exact = true, *d, true
		}
		all = append(all, g)
	}
	return all
}
