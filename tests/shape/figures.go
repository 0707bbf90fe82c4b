package main

// This file measures one file: it counts lines by kind and, in Go, the types and functions.

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"unicode/utf8"
)

// These are the largest widths of a line, in columns. A tab counts as four.
const (
	commentColumns = 100
	codeColumns    = 120
	tabColumns     = 4
	// longFunction is the largest number of lines of a function.
	longFunction = 100
)

// figures holds the measurements of all files so far.
type figures struct {
	methods   map[string]int // by package and type
	fields    map[string]int
	functions []place // longer than longFunction
	comments  []place // wider than commentColumns
	sentences []place // longer than longSentence
	wide      int     // lines of code wider than codeColumns
	readme    int     // lines of README.md
	code      map[string]int
	tests     map[string]int
}

// place is a line of a file, with a size that was measured there.
type place struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Size int    `json:"size"` // lines, columns or words
}

func newFigures() *figures {
	return &figures{methods: map[string]int{}, fields: map[string]int{}, code: map[string]int{},
		tests: map[string]int{}}
}

// addGo adds a Go file.
func (f *figures) addGo(name string, text []byte) error {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", name, err)
	}
	if ast.IsGenerated(tree) {
		return nil
	}
	in := map[int]bool{} // lines that have a comment
	for _, group := range tree.Comments {
		for _, c := range group.List {
			for line := files.Position(c.Pos()).Line; line <= files.Position(c.End()).Line &&
				!strings.HasPrefix(c.Text, "//go:"); line++ {
				in[line] = true
			}
		}
		f.addProse(name, files.Position(group.Pos()).Line, group.Text())
	}
	f.addLines(name, text, in)
	isTest := strings.HasSuffix(name, "_test.go")
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			from, to := files.Position(d.Pos()).Line, files.Position(d.End()).Line
			if lines := to - from + 1; lines > longFunction && !isTest { // tests have tables
				f.functions = append(f.functions, place{name, from, lines})
			}
			if d.Recv != nil && !isTest {
				f.methods[path.Dir(name)+"."+receiver(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			f.addTypes(path.Dir(name), d)
		}
	}
	return nil
}

// addTypes counts the fields of structures. An embedded type counts as one field.
func (f *figures) addTypes(folder string, d *ast.GenDecl) {
	for _, s := range d.Specs {
		t, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if of, ok := t.Type.(*ast.StructType); ok {
			for _, field := range of.Fields.List {
				f.fields[folder+"."+t.Name.Name] += max(1, len(field.Names))
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// addC adds a C file or header. It finds comments as C does, except that it would take `//` or `/*`
// within a string for one. The sources have no such strings.
func (f *figures) addC(name string, text []byte) {
	in := map[int]bool{}
	inside := false
	var words strings.Builder
	from := 0
	for i, line := range strings.Split(string(text), "\n") {
		for rest := line; ; {
			if !inside {
				_, after, found := strings.Cut(rest, "/*")
				if !found {
					if _, comment, found := strings.Cut(rest, "//"); found {
						in[i+1] = true
						f.addProse(name, i+1, comment)
					}
					break
				}
				inside, rest, from = true, after, i+1
			}
			in[i+1] = true
			before, after, found := strings.Cut(rest, "*/")
			words.WriteString(strings.TrimLeft(before, " \t*") + "\n")
			if !found {
				break
			}
			f.addProse(name, from, words.String())
			words.Reset()
			inside, rest = false, after
		}
	}
	f.addLines(name, text, in)
}

// addLines counts the lines that are not empty, and measures their widths. in holds the numbers of
// the lines that have a comment.
func (f *figures) addLines(name string, text []byte, in map[int]bool) {
	kind := f.code
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tests/") {
		kind = f.tests
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		kind[path.Dir(name)]++
		switch n := columns(line); {
		case in[i+1] && n > commentColumns && !address(line):
			f.comments = append(f.comments, place{name, i + 1, n})
		case !in[i+1] && n > codeColumns:
			f.wide++
		}
	}
}

// columns returns the width of a line.
func columns(line []byte) int {
	return utf8.RuneCount(line) + (tabColumns-1)*bytes.Count(line, []byte("\t"))
}

// address reports whether a line is too wide only because of an address, which cannot be broken.
func address(line []byte) bool {
	at := bytes.Index(line, []byte("https://"))
	return at >= 0 && at < commentColumns && !bytes.ContainsAny(line[at:], " \t")
}
