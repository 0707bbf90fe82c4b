package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandLines are the command lines of a program in a text: of indented lines, those that begin
// with it or have it after a prompt's words such as sudo, as far as it is the program's own.
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
			if strings.HasPrefix(w, "#") || strings.HasPrefix(w, "(") || strings.HasPrefix(w, "[") ||
				strings.Contains("| > < & ; && --", w) {
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

// Rule: each command of funet that the README and the pages of the manual show is there, with the
// flags that they give it.
func TestPagesShowCommandsThatAreThere(t *testing.T) {
	paths, err := filepath.Glob("../manual/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := commandLines(string(text), "funet")
		found += len(lines)
		for _, words := range lines {
			if err := accepts(root(), words); err != nil {
				t.Errorf("%s: funet %s: %v", path, strings.Join(words, " "), err)
			}
		}
	}
	if found < 100 {
		t.Errorf("this test finds only %d commands of funet", found)
	}
	if accepts(root(), []string{"pingpong", "--colour"}) == nil ||
		accepts(root(), []string{"lab", "--nothing"}) == nil {
		t.Error("this test takes anything")
	}
}
