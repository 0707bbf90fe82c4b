package usage

// This file keeps help within the width of a terminal. Text is folded. Examples stay as they are,
// so that they can be copied.

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
)

// Narrow makes the help of c and of the commands below it fold lines wider than output.Width.
func Narrow(c *cobra.Command) {
	cobra.AddTemplateFuncs(map[string]any{"fold": fold, "entry": entry, "columns": func() int { return output.Width }})
	c.SetHelpTemplate(strings.Replace(c.HelpTemplate(), "{{. |", "{{. | fold |", 1))
	c.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages", ".FlagUsagesWrapped columns",
		"  {{rpad .Name .NamePadding }} {{.Short}}", "{{entry .Name .NamePadding .Short}}",
		"{{.}}{{end}}", "{{fold .}}{{end}}",
	).Replace(c.UsageTemplate()))
}

// entry returns a line of a list of commands, folded behind the name.
func entry(name string, padding int, short string) string {
	before := "  " + name + strings.Repeat(" ", max(0, padding-len(name))+1)
	return before + strings.Join(output.Fold(short, output.Width-len(before)), "\n"+strings.Repeat(" ", len(before)))
}

// item matches the beginning of a line that is not folded into the lines around it: spaces, with
// the words that they set apart, or all text before a remark.
var item = regexp.MustCompile(`^ +(.* # |(\S+ {2,})*)`)

// fold folds the paragraphs of a text that have lines wider than output.Width. Lines that begin
// with a space are folded by themselves, and go on below their text.
func fold(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		var folded []string
		flowing := "" // lines that go on from one to the next
		flow := func() {
			if flowing != "" {
				folded = append(folded, output.Fold(flowing, output.Width)...)
				flowing = ""
			}
		}
		wide := false
		for line := range strings.SplitSeq(p, "\n") {
			tooWide := utf8.RuneCountInString(line) > output.Width
			wide = wide || tooWide
			before := item.FindString(line)
			switch {
			case before == "":
				flowing += line + "\n"
			case !tooWide:
				flow()
				folded = append(folded, line)
			default:
				flow()
				below := strings.Repeat(" ", len(before))
				if code, is := strings.CutSuffix(before, "# "); is {
					below = strings.Repeat(" ", len(code)) + "# "
				}
				folded = append(folded, before+strings.Join(output.Fold(line[len(before):], output.Width-len(before)),
					"\n"+below))
			}
		}
		flow()
		if wide {
			paragraphs[i] = strings.Join(folded, "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
