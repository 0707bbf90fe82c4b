package sampled_test

// This file tests the committed profiles: that the compiler can read them, and that the functions
// that they name are still there. Of a function that is gone the compiler knows nothing, and says
// nothing.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

const (
	module = "github.com/funet/funet/"
	root   = "../.."
	// most is how long a committed profile may be, in bytes.
	most = 400 << 10
	// fresh is the part of the samples' frames in this module, by weight, whose functions have to
	// exist.
	fresh = 0.9
)

// Rule (Makefile, profile): each program, and the provider for libfabric, has a profile beside its
// main function, where `go build` looks for one. It has samples of the functions that a message
// meets, and at least nine in ten frames of this module are in functions that exist. Who moves
// functions runs make profile.
func TestProfiles(t *testing.T) {
	for program, functions := range map[string][]string{
		"ctl/funet": {"uspace/engine.(*Card).Step", "uspace/card.(*Card).Drive", "uspace/am.(*Endpoint).Poll",
			"uspace/attach.(*Client).Drive"},
		"ctl/funet-bench": {"uspace/engine.(*Card).Step", "uspace/card.(*Card).Drive", "uspace/am.(*Endpoint).Poll"},
		"ctl/funet-paper": {"uspace/engine.(*Card).Step"},
		"ctl/funid":       {"uspace/engine.(*Card).Step", "ctl/daemon.(*loop).turn"},
		"uspace/ofi": {"uspace/engine.(*Card).Step", "uspace/funet.(*Endpoint).PollWithin",
			"uspace/am.(*Endpoint).StartSendWide", "uspace/rma.(*Endpoint).Poll"},
	} {
		t.Run(program, func(t *testing.T) {
			p, size := read(t, filepath.Join(root, program, "default.pgo"))
			if size > most {
				t.Errorf("the profile has %d bytes, at most %d are to be committed", size, most)
			}
			weights := weigh(p)
			for _, f := range functions {
				if weights[f] == 0 {
					t.Errorf("no sample of %s: run make profile", f)
				}
			}
			there, gone := declared(t), map[string]int64{}
			var all, found int64
			for f, w := range weights {
				if all += w; there[f] {
					found += w
				} else {
					gone[f] = w
				}
			}
			if float64(found) < fresh*float64(all) {
				t.Errorf("of the samples' frames in this module %.0f %% are in functions that exist, %.0f %% are to be; run make profile. Gone: %v",
					100*float64(found)/float64(all), 100*fresh, gone)
			}
		})
	}
}

func read(t *testing.T, name string) (*profile.Profile, int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(p.SampleType) == 0 || p.SampleType[len(p.SampleType)-1].Type != "cpu" {
		t.Fatalf("%s is no profile of the processor's time: %v", name, p.SampleType)
	}
	return p, len(b)
}

// closure matches what the compiler puts behind the name of the function that a closure is in, and
// behind a method that is called through a value; instance matches what it puts where the types of
// a generic function stand.
var closure, instance = regexp.MustCompile(`(\.func\d+|\.\d+|\.gowrap\d+|\.deferwrap\d+|-range\d+|-fm)+$`),
	regexp.MustCompile(`\[[^\]]*\]`)

// weigh returns how many samples have a frame in each function of this module, whose path is left
// out. The benchmarks' own, which are in tests, do not count.
func weigh(p *profile.Profile) map[string]int64 {
	weights := map[string]int64{}
	for _, s := range p.Sample {
		for _, l := range s.Location {
			for _, line := range l.Line {
				if name, ours := strings.CutPrefix(line.Function.Name, module); ours &&
					!strings.Contains(name, "_test.") {
					weights[closure.ReplaceAllString(instance.ReplaceAllString(name, ""), "")] += s.Value[0]
				}
			}
		}
	}
	return weights
}

// declared returns the functions of this module as the runtime names them, without the module's
// path.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				all[filepath.ToSlash(folder)+"."+receiver(f)+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// receiver matches what stands before a method's name.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	switch r := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return fmt.Sprintf("(*%s).", typeName(r.X))
	default:
		return typeName(r) + "."
	}
}

// typeName is the name of a type without its parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}
