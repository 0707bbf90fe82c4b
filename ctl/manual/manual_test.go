package manual_test

// This file tests the rules for pages (manual.go).

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/funet/funet/ctl/manual"
	"github.com/funet/funet/ctl/output"
)

// mostWide is the width of the widest command or program line of a page.
const mostWide = 120

// texts returns the files of this folder's pages, the README and the others for readers, by their
// paths.
func texts(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	all := map[string]string{}
	for _, p := range append(paths, "../../README.md", "../../uspace/HACKING.md", "../../uspace/DESIGN.md",
		"../../tests/qemu/figures.md") {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all[p] = string(b)
	}
	return all
}

// anchors returns the names by which a text's sections are linked to.
func anchors(text string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// Rule: each link of the README, of the manual and of the pages for who changes FUNet leads to a
// file, and to a section of it, that is there.
func TestLinks(t *testing.T) {
	links := 0
	for path, text := range texts(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			to, in := path, text
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
				b, err := os.ReadFile(to)
				if info, is := os.Stat(to); err != nil && (is != nil || !info.IsDir()) {
					t.Errorf("%s: there is no %s", path, to)
					continue
				}
				in = string(b)
			}
			if m[2] != "" && !slices.Contains(anchors(in), m[2]) {
				t.Errorf("%s: %s has no section %q", path, to, m[2])
			}
		}
	}
	if links < 40 {
		t.Errorf("this test finds only %d links", links)
	}
}

// Rule: a page has a title and no line that is wider than a terminal, but for indented ones; so has
// what a terminal shows.
func TestPages(t *testing.T) {
	files, _ := filepath.Glob("*.md")
	pages := manual.Pages()
	if len(files) != len(pages) {
		t.Errorf("there are %d files, and %d pages: say in manual.go where each stands", len(files), len(pages))
	}
	wide := func(name, text string) {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if n := utf8.RuneCountInString(line); n > output.Width && !strings.HasPrefix(line, "    ") || n > mostWide {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
	for _, p := range pages {
		b, err := os.ReadFile(p.Name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		wide(p.Name, string(b))
		shown := p.Terminal()
		wide("funet help "+p.Name, shown)
		if !strings.HasPrefix(string(b), "# "+p.Title+"\n\n") || p.Title == "" || len(shown) < 300 {
			t.Errorf("%s begins with %.60q, and its terminal's form with %.60q", p.Name, b, shown)
		}
		if roff := string(p.Roff(time.Unix(0, 0))); !strings.Contains(roff, "funet-"+p.Name+` \- `) ||
			!strings.Contains(roff, `"Jan 1970"`) || strings.Contains(roff, "](") {
			t.Errorf("%s in roff: %.200q", p.Name, roff)
		}
	}
}

// Rule: on a terminal paragraphs and lists are folded, indented lines stay as they are, and a link
// names the command that shows its page.
func TestTerminal(t *testing.T) {
	const long = "and words and words and words and words and words and words and words and words"
	page := manual.Of("x", "# A page\n\nSee [keys](keys.md) "+long+
		"\nand [the labs](labs.md#a).\n\n## Part\n\n- **one**: "+long+
		"\n1. two\n\n       code  stays\n   as [it](../../a/b.go) is\n\n    code [x](y.md)\n")
	want := `A PAGE

See ` + "`funet help keys`" + ` and words and words and words and words and words and
words and words and words and the labs (` + "`funet help labs`" + `).

PART

- one: and words and words and words and words and words and words and words and
  words
1. two

       code  stays
   as it (a/b.go) is

    code [x](y.md)
`
	if got := page.Terminal(); got != want {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
}
