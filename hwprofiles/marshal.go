package hwprofiles

// This file writes a profile as a file that Parse reads.

import (
	"bytes"
	"fmt"
	"strconv"
)

// Marshal writes the profile in the form that Parse reads. Each source is both a comment behind its
// figure and an entry of `sources`. Marshal does not write a profile that Check refuses.
func (p *Profile) Marshal() ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "name: %s\nabout: %s\n", strconv.Quote(p.Name), strconv.Quote(p.About))
	last := ""
	for _, f := range p.given() {
		section, name := f.parts()
		if section != last {
			fmt.Fprintf(&b, "\n%s:\n", section)
			last = section
		}
		fmt.Fprintf(&b, "  %s: %s%s\n", name, f.text(p), comment(p.Sources[f.key]))
	}
	if len(p.Costs) != 0 {
		fmt.Fprintf(&b, "\ncosts:%s\n", comment(p.Sources["costs"]))
		for _, c := range p.Costs {
			fmt.Fprintf(&b, "  - {call: %q, measure: %q, cycles: %v, bytes: %d}\n", c.Call, c.Measure,
				c.Cycles, c.Bytes)
		}
	}
	if len(p.Steps) != 0 {
		fmt.Fprintf(&b, "\nsteps:%s\n", comment(p.Sources["steps"]))
		for _, s := range p.Steps {
			fmt.Fprintf(&b,
				"  - {of: %q, side: %q, step: %q, path: %q, unit: %q, base: %v, data_byte: %v, metadata_byte: %v}\n",
				s.Of, s.Side, s.Name, s.Path, s.Unit, s.Base, s.DataByte, s.MetadataByte)
		}
	}
	if len(p.Sources) != 0 {
		b.WriteString("\nsources:\n")
		for i := range figures {
			if source := p.Sources[figures[i].key]; source != "" {
				fmt.Fprintf(&b, "  %s: %s\n", figures[i].key, strconv.Quote(source))
			}
		}
		for _, list := range []string{"costs", "steps"} {
			if source := p.Sources[list]; source != "" {
				fmt.Fprintf(&b, "  %s: %s\n", list, strconv.Quote(source))
			}
		}
	}
	return b.Bytes(), nil
}

func comment(source string) string {
	if source == "" {
		return ""
	}
	return " # " + source
}
