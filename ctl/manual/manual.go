// Package manual is the manual of FUNet: a page a subject, each a Markdown file of this folder.
//
// A page is shown in three ways: on the web as it stands, by `funet help PAGE` folded to the width
// of a terminal (terminal.go), and by man(1) in section 7 (roff.go). What is about one command only
// is in the help of that command, and what is about a function in its comment.
//
// The tests check these rules for pages. The first line is `# ` and the title. Lines have at most
// 80 columns, except commands and programs that cannot be shorter. Every link leads to a page, a
// section or a file that is there. Every command is accepted with the flags that it is given.
package manual

import (
	"embed"
	"strings"
)

//go:embed *.md
var files embed.FS

// order is that of lists of pages: from a first trial to a cluster, then programs, then the rest.
var order = []string{"labs", "service", "ports", "systemd", "hosts", "etcd", "clouds", "routers", "hubs", "keys",
	"kubernetes",
	"nics", "tuning", "troubleshooting", "sharing", "moving", "programs", "mpi", "sockets", "windows", "words", "benchmarks",
	"profiles", "simulation", "limits", "changes"}

// Page is a page of the manual.
type Page struct {
	Name  string // of its file, without .md
	Title string
	text  string // Markdown below the title
}

// Pages returns all pages, in an order to read them in.
func Pages() (pages []Page) {
	for _, name := range order {
		text, err := files.ReadFile(name + ".md")
		if err != nil {
			panic(err) // a test reads all
		}
		pages = append(pages, Of(name, string(text)))
	}
	return pages
}

// Of returns the page of a file's text.
func Of(name, text string) Page {
	title, below, _ := strings.Cut(text, "\n")
	return Page{Name: name, Title: strings.TrimPrefix(title, "# "), text: strings.TrimSpace(below) + "\n"}
}
