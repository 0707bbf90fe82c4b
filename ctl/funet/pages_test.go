package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandLines are the command lines of a program in a text: of indented lines, those that begin with it or have it
// after a prompt's words such as sudo, as far as it is the program's own.
func commandLines(text, program string) (lines [][]string) {
	word := regexp.MustCompile(`"[^"]*"|[^\s"]+`)
	begins := regexp.MustCompile(`^ +(?:.*(?:sudo |-- |; |&& |\| |\$\())?(?:bin/)?` + program + ` (.*)`)
	for line := range strings.Lines(text) {
		m := begins.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || strings.HasPrefix(strings.TrimSpace(line), "|") {
			continue
		}
		var words []string
		for _, w := range word.FindAllString(m[1], -1) {
			if end := strings.TrimRight(w, ");,"); end != w {
				words = append(words, end)
				break
			}
			if strings.HasPrefix(w, "#") || strings.HasPrefix(w, "(") || strings.HasPrefix(w, "[") || strings.Contains("| > < & ; && --", w) {
				break
			}
			words = append(words, strings.Trim(w, `"`))
		}
		lines = append(lines, words)
	}
	return lines
}

// accepts says whether there is such a command with such flags and as many arguments.
func accepts(c *cobra.Command, words []string) error {
	found, rest, err := c.Find(words)
	if err == nil {
		err = found.ParseFlags(rest)
	}
	return err
}

// Rule: each command of funet that the README and the pages of the manual show is there, with the flags that they
// give it.
func TestPagesShowCommandsThatAreThere(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := os.ReadFile("../funid/kubernetes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]struct {
		text    string
		atLeast int
	}{"README": {string(readme), 40}, "tuning": {tuningPage, 5}, "clouds": {cloudsPage, 0}, "kubernetes": {string(kubernetes), 2}} {
		lines := commandLines(page.text, "funet")
		if len(lines) < page.atLeast {
			t.Errorf("%s has %d commands of funet, so this test does not find them: %q", name, len(lines), lines)
		}
		for _, words := range lines {
			if err := accepts(root(), words); err != nil {
				t.Errorf("%s: funet %s: %v", name, strings.Join(words, " "), err)
			}
		}
	}
	if accepts(root(), []string{"pingpong", "--colour"}) == nil || accepts(root(), []string{"lab", "--nothing"}) == nil {
		t.Error("this test takes anything")
	}
}

// Rule: a link of the README to one of its sections leads there.
func TestLinksOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(readme), -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(readme), -1)
	if len(links) == 0 {
		t.Error("it has none")
	}
	for _, m := range links {
		if !sections[m[1]] {
			t.Errorf("there is no section %s", m[1])
		}
	}
}
