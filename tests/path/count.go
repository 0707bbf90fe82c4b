package main

// This file builds and runs this program with counters, and reads how often each function was
// called.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// module is the beginning of all import paths here; own is this program, which is not counted.
const (
	module = "github.com/funet/funet/"
	own    = "./tests/path"
)

// function is a declared function or method, and how often it was called.
type function struct {
	Package string `json:"package"` // below module
	File    string `json:"file"`
	Name    string `json:"name"` // with the receiver's type
	Calls   int    `json:"calls"`
}

// measure makes round trips in a program with counters, and returns the functions of all files
// with counters.
func measure(ctx context.Context, trips int) ([]function, error) {
	folder, err := os.MkdirTemp("", "funet-path-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program, counters := filepath.Join(folder, "path"), filepath.Join(folder, "counters")
	if err := os.Mkdir(counters, 0o700); err != nil {
		return nil, err
	}
	text := filepath.Join(folder, "text")
	for _, args := range [][]string{
		// Without counters in package main the program could not clear any.
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=./uspace/...,./xdp/...," + own, "-o", program, own},
		{program, "--trips", fmt.Sprint(trips), "--into", counters},
		{"go", "tool", "covdata", "textfmt", "-i=" + counters, "-o=" + text},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	f, err := os.Open(text)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return functions(f, os.ReadFile)
}

// block is one counter of a file.
type block struct{ line, column, count int }

// functions reads what `go tool covdata textfmt` printed, and the source of the files that it
// names, in the order of the files.
func functions(profile io.Reader, read func(name string) ([]byte, error)) ([]function, error) {
	blocks, files := map[string][]block{}, []string{}
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		at, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || at == "mode" {
			continue
		}
		var b block
		var toLine, toColumn, statements int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &toLine, &toColumn, &statements,
			&b.count); err != nil {
			return nil, fmt.Errorf("reading the counter %q: %w", lines.Text(), err)
		}
		name := strings.TrimPrefix(at, module)
		if path.Dir(name) == path.Clean(own) {
			continue
		}
		if blocks[name] == nil {
			files = append(files, name)
		}
		blocks[name] = append(blocks[name], b)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading counters: %w", err)
	}
	var all []function
	for _, name := range files {
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		of, err := functionsOf(name, text, blocks[name])
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// functionsOf returns the functions that a file declares. The counter of a function is that of the
// first block in its body.
func functionsOf(name string, text []byte, blocks []block) ([]function, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	var all []function
	for _, d := range tree.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		from, to := files.Position(d.Body.Lbrace), files.Position(d.Body.Rbrace)
		first := block{line: to.Line, column: to.Column}
		for _, b := range blocks {
			if b.compare(block{line: from.Line, column: from.Column}) >= 0 && b.compare(first) < 0 {
				first = b
			}
		}
		all = append(all, function{path.Dir(name), name, nameOf(d), first.count})
	}
	return all, nil
}

// compare orders blocks by their places in the file.
func (b block) compare(o block) int {
	return cmp.Or(cmp.Compare(b.line, o.line), cmp.Compare(b.column, o.column))
}

// nameOf returns the name of a function with its receiver's type.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch of := t.(type) {
	case *ast.IndexExpr:
		t = of.X
	case *ast.IndexListExpr:
		t = of.X
	}
	return fmt.Sprint(t) + "." + d.Name.Name
}
