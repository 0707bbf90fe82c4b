package main

// This file leaves out of a check's program the tests that the check does not run. Compiling all
// tests of the engine anew takes most of the time of a mutant.

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// tested matches the functions that `go test` runs.
var tested = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// trim makes copies of the test files of a check without tests but its own, in folder, and has the
// overlay file replace the originals by them.
func (b *bench) trim(c check, folder, overlay string) error {
	var o struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return fmt.Errorf("reading the overlay: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(b.root, c.folder, "*_test.go"))
	for _, file := range files {
		var source, rest []byte
		if source, err = os.ReadFile(file); err == nil {
			rest, err = without(source, c.test)
		}
		o.Replace[file] = filepath.Join(folder, "trimmed_"+filepath.Base(file))
		if err == nil {
			err = os.WriteFile(o.Replace[file], rest, 0o644)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		text, err = json.Marshal(o)
	}
	if err == nil {
		err = os.WriteFile(overlay, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("leaving out tests: %w", err)
	}
	return nil
}

// without returns a test file without its tests, but for one. Imports that nothing uses any more
// are blank. Nothing moves to another line.
func without(source []byte, test string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", source, 0)
	if err != nil {
		return nil, err
	}
	rest := slices.Clone(source)
	used := map[string]bool{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && tested.MatchString(fn.Name.Name) &&
			fn.Name.Name != "TestMain" && fn.Name.Name != test {
			for i := set.Position(d.Pos()).Offset; i < set.Position(d.End()).Offset; i++ {
				if rest[i] != '\n' {
					rest[i] = ' '
				}
			}
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil { // no variable
					used[x.Name] = true
				}
			}
			return true
		})
	}
	for _, i := range slices.Backward(f.Imports) {
		at := set.Position(i.Pos()).Offset
		name, blank := packageName(i), "_ "
		if i.Name != nil {
			name = i.Name.Name
			rest = slices.Delete(rest, at, set.Position(i.Path.Pos()).Offset)
			blank = map[bool]string{true: name, false: "_"}[used[name] || name == "_"] + " "
		} else if used[name] {
			continue
		}
		rest = slices.Insert(rest, at, []byte(blank)...)
	}
	return rest, nil
}

// packageName returns the name of an imported package without another name: the last part of its
// path that is no version.
func packageName(i *ast.ImportSpec) string {
	from, _ := strconv.Unquote(i.Path.Value)
	if base := path.Base(from); base[0] != 'v' || len(base) != 2 {
		return base
	}
	return path.Base(path.Dir(from))
}
