package manual

// This file shows pages on a terminal.

import (
	"regexp"
	"strings"

	"github.com/funet/funet/ctl/output"
)

var (
	// toPage is a link to a page, perhaps to a section of it.
	toPage = regexp.MustCompile(`\[([^\]]*)\]\((\w+)\.md(?:#[^)]*)?\)`)
	// toFile is any other link.
	toFile = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
	// begins is the head of an item of a list.
	begins = regexp.MustCompile(`^ {0,3}(- |\d+\. )`)
)

// Terminal returns the page for a terminal of output.Width columns.
func (p Page) Terminal() string {
	var out strings.Builder
	out.WriteString(strings.ToUpper(p.Title) + "\n\n")
	p.show(output.Width, &out, func(title string) { out.WriteString(strings.ToUpper(title) + "\n") })
	return out.String()
}

// show writes the page below its title: paragraphs and lists are folded to a width, links name the
// command that shows their page, and what is indented by four columns stays as it is. Titles of
// sections go to a function.
func (p Page) show(wide int, out *strings.Builder, section func(title string)) {
	paragraph, head := "", ""
	end := func() {
		if paragraph != "" {
			below := "\n" + strings.Repeat(" ", len(head))
			out.WriteString(head + strings.Join(output.Fold(plain(paragraph), wide-len(head)), below) + "\n")
		}
		paragraph, head = "", ""
	}
	for line := range strings.Lines(p.text) {
		line = strings.TrimRight(line, "\n")
		title, isTitle := strings.CutPrefix(line, "## ")
		item := begins.FindString(line)
		switch {
		case line == "":
			end()
			out.WriteString("\n")
		case isTitle:
			end()
			section(title)
		case paragraph == "" && strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "|"):
			end()
			out.WriteString(line + "\n")
		case item != "":
			end()
			head, paragraph = item, line[len(item):]
		case paragraph == "": // perhaps one of an item
			paragraph = strings.TrimLeft(line, " ")
			head = line[:len(line)-len(paragraph)]
		default:
			paragraph += " " + strings.TrimSpace(line)
		}
	}
	end()
}

// plain makes a paragraph plain text.
func plain(text string) string {
	text = toPage.ReplaceAllStringFunc(text, func(link string) string {
		m := toPage.FindStringSubmatch(link)
		if m[1] == m[2] {
			return "`funet help " + m[2] + "`"
		}
		return m[1] + " (`funet help " + m[2] + "`)"
	})
	text = toFile.ReplaceAllStringFunc(text, func(link string) string {
		m := toFile.FindStringSubmatch(link)
		to := strings.TrimPrefix(m[2], "../../")
		if to == m[1] || strings.HasPrefix(to, "#") {
			return m[1]
		}
		return m[1] + " (" + to + ")"
	})
	return strings.ReplaceAll(text, "**", "")
}
