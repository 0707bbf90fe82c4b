package manual

// This file makes pages for man(1).

import (
	"fmt"
	"strings"
	"time"

	"github.com/funet/funet/ctl/output"
)

const (
	// Section is the section of the manual that pages are in.
	Section = "7"
	// margin is what man indents text by.
	margin = 7
)

// escapes are for characters that roff takes for its own.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// Roff returns the page for man(1), of a date: lines as on a terminal, below the titles of
// sections.
func (p Page) Roff(date time.Time) []byte {
	var page, text strings.Builder
	fmt.Fprintf(&page, ".TH \"FUNET-%s\" %q %q \"FUNet\" \"FUNet\"\n.nh\n.SH NAME\nfunet-%s \\- %s\n.SH DESCRIPTION\n",
		strings.ToUpper(p.Name), Section, date.Format("Jan 2006"), p.Name, p.Title)
	end := func() {
		page.WriteString(".nf\n" + strings.TrimPrefix(escapes.Replace("\n"+strings.Trim(text.String(), "\n")),
			"\n") + "\n.fi\n")
		text.Reset()
	}
	p.show(output.Width-margin, &text, func(title string) {
		end()
		fmt.Fprintf(&page, ".SH %s\n", strings.ToUpper(title))
	})
	end()
	return []byte(page.String())
}
