package hwprofiles

// This file turns the tree of a file into a Profile.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/hwprofiles/strictyaml"
)

// MaxBytes is the longest file.
const MaxBytes = 64 << 10

// format is the format of a profile, which needs three levels.
var format = strictyaml.Format{Noun: "profile", MaxBytes: MaxBytes, MaxDepth: 32, Invalid: ErrInvalid}

// Parse reads a profile from data. file stands for it in errors, which are one line and wrap
// ErrInvalid. Any bytes are safe to give.
func Parse(file string, data []byte) (*Profile, error) {
	top, err := format.Parse(file, data)
	if err != nil {
		return nil, err
	}
	if top == nil {
		return nil, fmt.Errorf("%s: empty; `funet profile show native --yaml` prints a profile to start from: %w",
			file, ErrInvalid)
	}
	t := text{file: file, at: make(map[string]*strictyaml.Node)}
	p, err := t.profile(top)
	if err != nil {
		return nil, err
	}
	if err := p.check(t.where); err != nil {
		return nil, err
	}
	return p, nil
}

// text is a file that is being read: its name, and the place of each key's value.
type text struct {
	file string
	at   map[string]*strictyaml.Node
}

// where returns file, line and column of a key, or the file if it has no such key.
func (t *text) where(key string) string {
	if n := t.at[key]; n != nil {
		return n.Where()
	}
	return t.file
}

func (t *text) profile(top *strictyaml.Node) (*Profile, error) {
	keys, err := t.mapping(top, "", append([]string{"name", "about", "costs", "steps", "sources"}, sections...)...)
	if err != nil {
		return nil, err
	}
	p := new(Profile)
	for _, of := range []struct {
		key string
		to  *string
	}{{"name", &p.Name}, {"about", &p.About}} {
		n := keys[of.key]
		if n == nil {
			return nil, top.Errorf("no %s; add %s: and a line of text", of.key, of.key)
		}
		if *of.to, err = n.Text(); err != nil {
			return nil, err
		}
	}
	for _, section := range sections {
		if n := keys[section]; n != nil {
			if err := t.section(p, n, section); err != nil {
				return nil, err
			}
		}
	}
	if n := keys["costs"]; n != nil {
		if err := t.costs(p, n); err != nil {
			return nil, err
		}
	}
	if n := keys["steps"]; n != nil {
		if err := t.steps(p, n); err != nil {
			return nil, err
		}
	}
	if n := keys["sources"]; n != nil {
		if err := t.sources(p, n); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// later has the figures that were added to sections after the first version. Files without them
// keep their meaning.
var later = []string{"bus.queue_burst", "card.block_bytes", "card.remote_page_bytes", "card.window_entries_cached",
	"card.window_entry_words"}

// section reads the figures of a section. All must be there, except those in later or virtual.
func (t *text) section(p *Profile, n *strictyaml.Node, section string) error {
	var mine []*figure
	var names []string
	for i := range figures {
		if s, name := figures[i].parts(); s == section {
			mine, names = append(mine, &figures[i]), append(names, name)
		}
	}
	keys, err := t.mapping(n, section+".", names...)
	if err != nil {
		return err
	}
	for i, f := range mine {
		v := keys[names[i]]
		if v == nil && (slices.Contains(later, f.key) || slices.Contains(virtual, f.key)) {
			continue
		}
		if v == nil {
			return n.Errorf("%s has no %s; add it (%s), or leave the whole section out", section, names[i], f.want())
		}
		if !t.set(f.at(p), v) {
			return v.Errorf("%s is %s, want %s", f.key, v.What(), f.want())
		}
	}
	return nil
}

// set reads a value; it returns false if the value is not of the type.
func (t *text) set(to any, n *strictyaml.Node) (ok bool) {
	var v int64
	switch to := to.(type) {
	case *Clock:
		v, ok = number(n, 3)
		*to = Clock(v)
	case *Share:
		v, ok = number(n, 4)
		*to = Share(v)
	case *Cycles:
		v, ok = number(n, 1)
		*to = Cycles(v)
	case *int:
		v, ok = number(n, 0)
		*to = int(v)
	case *time.Duration:
		v, ok = number(n, 0)
		*to = time.Duration(v)
	case *[]string:
		*to, ok = words(n)
	case *bool:
		*to, ok = n.Bool()
	case *[]int:
		list, isList := n.List()
		if !isList || len(list) > maxBursts {
			return false
		}
		ok = true // also without any
		for _, n := range list {
			if v, ok = number(n, 0); !ok {
				return false
			}
			*to = append(*to, int(v))
		}
	case *Topology:
		s, err := n.Text()
		if ok = err == nil && (s == "any" || s == string(Hypercube) || s == string(Crossbar)); ok && s != "any" {
			*to = Topology(s)
		}
	}
	return ok
}

func (t *text) costs(p *Profile, n *strictyaml.Node) error {
	t.at["costs"] = n
	list, ok := n.List()
	if !ok {
		return n.Errorf("costs is %s, want a list of {call: NAME, measure: NAME, cycles: 50.7, bytes: 0}", n.What())
	}
	for i, n := range list {
		key := costKey(i)
		t.at[key] = n
		keys, err := t.mapping(n, key+".", "call", "measure", "cycles", "bytes")
		if err != nil {
			return err
		}
		for _, name := range []string{"call", "measure", "cycles", "bytes"} {
			if keys[name] == nil {
				return n.Errorf("a cost has no %s; each has call, measure, cycles and bytes (0: of a call)", name)
			}
		}
		var c Cost
		if c.Call, err = keys["call"].Text(); err != nil {
			return err
		}
		if c.Measure, err = keys["measure"].Text(); err != nil {
			return err
		}
		if !t.set(&c.Cycles, keys["cycles"]) {
			return keys["cycles"].Errorf("cycles is %s, want %v to %v with at most 1 decimal", keys["cycles"].What(),
				Cycles(1), maxCycles)
		}
		if !t.set(&c.Bytes, keys["bytes"]) {
			return keys["bytes"].Errorf("bytes is %s, want a whole number, 0 for the cost of a call",
				keys["bytes"].What())
		}
		p.Costs = append(p.Costs, c)
	}
	return nil
}

func (t *text) steps(p *Profile, n *strictyaml.Node) error {
	t.at["steps"] = n
	list, ok := n.List()
	if !ok {
		return n.Errorf("steps is %s, want a list of {of: NAME, side: NAME, step: NAME, path: on, unit: cycles, base: 81, data_byte: 0.5, metadata_byte: 0}", n.What())
	}
	for i, n := range list {
		key := stepKey(i)
		t.at[key] = n
		var s Step
		texts := []struct {
			key string
			to  *string
		}{{"of", &s.Of}, {"side", &s.Side}, {"step", &s.Name}, {"path", &s.Path}, {"unit", &s.Unit}}
		shares := []struct {
			key string
			to  *Share
		}{{"base", &s.Base}, {"data_byte", &s.DataByte}, {"metadata_byte", &s.MetadataByte}}
		var names []string
		for _, f := range texts {
			names = append(names, f.key)
		}
		for _, f := range shares {
			names = append(names, f.key)
		}
		keys, err := t.mapping(n, key+".", names...)
		if err != nil {
			return err
		}
		for _, name := range names {
			if keys[name] == nil {
				return n.Errorf("a step has no %s; each has %s", name, strings.Join(names, ", "))
			}
		}
		for _, f := range texts {
			if *f.to, err = keys[f.key].Text(); err != nil {
				return err
			}
		}
		for _, f := range shares {
			if !t.set(f.to, keys[f.key]) {
				return keys[f.key].Errorf("%s is %s, want a number from 0 to %v with at most 4 decimals", f.key,
					keys[f.key].What(), maxShare)
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return nil
}

func (t *text) sources(p *Profile, n *strictyaml.Node) error {
	keys, err := n.KeysOf("the keys of figures, such as cpu.clock_mhz, or costs, or steps", known)
	if err != nil {
		return err
	}
	t.note("sources.", keys)
	p.Sources = make(map[string]string, len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if p.Sources[key], err = keys[key].Text(); err != nil {
			return err
		}
	}
	return nil
}

// mapping returns the values of a mapping by its keys, each of which may be there once. It notes
// their places under a prefix.
func (t *text) mapping(n *strictyaml.Node, prefix string, names ...string) (map[string]*strictyaml.Node, error) {
	keys, err := n.Keys(names...)
	t.note(prefix, keys)
	return keys, err
}

// note records the places of values, for where.
func (t *text) note(prefix string, keys map[string]*strictyaml.Node) {
	for key, n := range keys {
		t.at[prefix+key] = n
	}
}

// words reads a list of at most as many texts as there are mode bits.
func words(n *strictyaml.Node) (all []string, ok bool) {
	list, ok := n.List()
	if !ok || len(list) > len(ModeBits()) {
		return nil, false
	}
	for _, n := range list {
		s, err := n.Text()
		if err != nil {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// number reads a decimal number that is not negative, as it was written and not as YAML
// understands it: 0x10, 1e3 and 010 are refused.
func number(n *strictyaml.Node, places int) (int64, bool) {
	s, ok := n.Number()
	if !ok {
		return 0, false
	}
	return parseDecimal(s, places)
}
