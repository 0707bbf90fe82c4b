package paper

// This file has the rules of the model of Table 6.1: the grounds for each, and how to switch it
// off.

import (
	"maps"
	"slices"

	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

// rule is a choice in the model that can be switched off by itself.
type rule struct {
	Name    string `json:"rule"`
	Section string `json:"section"` // of the thesis
	// Hypothesis says that the rule is a guess about the thesis's simulator. Else it rests on the
	// text, or on the table and the CM-5's.
	Hypothesis bool   `json:"hypothesis"`
	For        string `json:"for"`
	Against    string `json:"against,omitempty"` // of hypotheses only
	off        func(*hwprofiles.Profile, *apps.CMAMOptions)
}

// rules are all rules. A profile has those that change it when they are switched off.
var rules = []rule{
	{Name: "packets of 20 words", Section: "3.1.1; conference paper 4.1.4",
		For: `A slot may use 24 words, 4 and 20 of data. In every group of the table a request takes 20.0
cycles more to receive than a reply; for mfer it is 4.0 for 16 bytes, so a packet had five times 16 bytes, and five
times the 44.3 cycles of mfer are the 221.5 of a message. Thesis 3.2.4 itself says 16 words.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Card.TransferWords = 16 }},
	{Name: "bursts of four for slots", Section: "3.2.4",
		For: `The DVMA transfers of slots are bursts of four words; only the data of XFER uses those of eight (6.1.5).`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Bus.QueueBurst = 0 }},
	{Name: "loops of unoptimised code", Section: "6.2.1",
		For: `GCC compiled without optimisation: a pass of a for tests at the top, jumps back, and leaves delay slots
empty, 3 cycles besides its body.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Library.LoopCycles = 0 }},
	{Name: "a loop that cuts blocks", Section: "3.2.4, appendix C",
		For: `The card does not cut transfers into packets, so the program does: 9 cycles a packet, an estimate.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Library.BlockCycles = 0 }},
	{Name: "counters behind a pointer", Section: "6.1.2",
		For: `A global array is reached with one more level of dereferencing: 4 cycles in the handler that counts.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Library.CounterCycles = 0 }},
	{Name: "get 16 through a segment", Section: "Table 6.1, columns of the CM-5",
		For: `Get 16 less get 1, less what xfer_4 takes more than a message, is 223.2 and 224.2 cycles on the CM-5, and
229.8 and 224.8 on FUNet: one packet of 16 bytes, and a segment that is opened and closed.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Library.SegmentCycles = 0 }},
	{Name: "round trips from many phases", Section: "6.2.1",
		For: `What a round trip takes depends on where the answering node is in its loop when the request arrives; rows
are means over that.`,
		off: func(_ *hwprofiles.Profile, o *apps.CMAMOptions) { o.InPhase = true }},
	{Name: "groups of four arguments", Section: "appendix A", Hypothesis: true,
		For: `The loop of cmam_n stores two double words a pass, and in the table a message of one argument is sent and
received as one of four is.`,
		Against: `The header says how many words there are, n + 1 (3.2.2), and the table's round trip of n = 1 has no room for the
second burst.`,
		off: func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Options.GroupWords = 0 }},
	{Name: "each burst makes a look miss", Section: "2.7", Hypothesis: true,
		For: `In the table each further burst into a queue brings one more transaction of a word: 255.9 cycles for four bursts
are 4 times 36.8 + 27.2.`,
		Against: `Only the word of the head is looked at, and the card writes that once a packet.`,
		off:     func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Options.LookMisses = false }},
	{Name: "no write of the head", Section: "5.2.3", Hypothesis: true,
		For:     `Beside those misses the table has no room for a write of the head's word behind each message.`,
		Against: `Section 5.2.3 says that the Delivery Unit writes it, to invalidate the processor's copy.`,
		off:     func(p *hwprofiles.Profile, _ *apps.CMAMOptions) { p.Options.HeadUnwritten = false }},
}

// without returns a profile, and the options of the benchmark, with some rules switched off.
func without(p *hwprofiles.Profile, off []rule) (*hwprofiles.Profile, apps.CMAMOptions) {
	q, o := *p, apps.CMAMOptions{Messages: virtual.Messages}
	for _, r := range off {
		r.off(&q, &o)
	}
	return &q, o
}

// rulesOf returns the rules that a profile has.
func rulesOf(p *hwprofiles.Profile) []rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rule) bool {
		q, o := without(p, []rule{r})
		return !o.InPhase && q.Card == p.Card && q.Bus.QueueBurst == p.Bus.QueueBurst && q.Library == p.Library &&
			q.Options == p.Options
	})
}

// groupNames returns the names of the groups of rows that can be held out.
func groupNames() []string { return slices.Sorted(maps.Keys(groups)) }

// groups are the rows of the table that are held out together, by the names of their primitives.
var groups = map[string][]string{
	"cmam_4":   {"cmam_4", "cmam_reply_4"},
	"cmam_n=1": {"cmam_n=1", "cmam_reply_n=1"}, "cmam_n=20": {"cmam_n=20", "cmam_reply_n=20"},
	"cmam_xfer_4": {"cmam_xfer_4", "cmam_reply_xfer_4"}, "cmam_mfer_n": {"cmam_mfer_n", "cmam_reply_mfer_n"},
	"calls": {"shared_memory", "get", "put", "barrier"},
}
