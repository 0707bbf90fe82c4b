package main

// This file finds the sentences of a comment. A paragraph ends at an empty line, and before an item
// of a list. Indented lines are code or tables, which have no sentences (go.dev/doc/comment).

import (
	"regexp"
	"strings"
)

// longSentence is the largest number of words of a sentence.
const longSentence = 40

// end matches the end of a sentence before a space. Abbreviations have no space.
var end = regexp.MustCompile(`[.?!]["')]?\s+`)

// item matches the beginning of an item of a list.
var item = regexp.MustCompile(`^\s*([-*•]|\d+[.)])\s`)

// addProse adds the long sentences of a comment that begins at the given line.
func (f *figures) addProse(name string, line int, text string) {
	var paragraph []string
	begin, inItem := line, false
	flush := func() {
		for _, s := range end.Split(strings.Join(paragraph, " "), -1) {
			if n := len(strings.Fields(s)); n > longSentence {
				f.sentences = append(f.sentences, place{name, begin, n})
			}
		}
		paragraph = paragraph[:0]
	}
	for i, l := range strings.Split(text, "\n") {
		isItem := item.MatchString(l)
		indented := strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "  ")
		switch {
		case strings.TrimSpace(l) == "":
			flush()
			inItem = false
			continue
		case isItem:
			flush()
			inItem = true
		case indented && !inItem:
			flush()
			continue
		}
		if len(paragraph) == 0 {
			begin = line + i
		}
		paragraph = append(paragraph, strings.TrimSpace(l))
	}
	flush()
}
