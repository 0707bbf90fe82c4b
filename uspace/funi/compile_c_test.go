package funi_test

// This file compiles the headers and the examples with every compiler there is, as every language
// that they are for, and runs what the headers refuse.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/tests/long"
)

// strict are the warnings without which the headers compile.
var strict = []string{"-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Wconversion", "-Werror"}

// compilers returns the compilers of this machine by what they compile: cc and c++ must be there,
// gcc and clang are used besides if they are.
func compilers(t *testing.T) map[string][]string {
	t.Helper()
	headers, err := filepath.Glob("*.h")
	if err != nil || len(headers) == 0 {
		t.Fatal(headers, err)
	}
	read(t, headers)
	found := map[string][]string{}
	for language, names := range map[string][]string{"c": {"cc", "gcc", "clang"}, "c++": {"c++", "g++", "clang++"}} {
		seen := map[string]bool{}
		for i, name := range names {
			path, err := exec.LookPath(name)
			if err != nil {
				if i == 0 {
					t.Fatalf("no %s, which gcc and g++ or clang bring: %v", name, err)
				}
				continue
			}
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real
			}
			if !seen[path] {
				seen[path] = true
				found[language] = append(found[language], name)
			}
		}
	}
	return found
}

// read reads files that only a compiler uses: what go test does not know of lets it repeat old
// results.
func read(t *testing.T, files []string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
}

var standards = map[string][]string{"c": {"c11", "c17"}, "c++": {"c++17", "c++20"}}

// optimises reports whether a compiler finds more with optimisation: GCC sees only then what may be
// used before it is set, while Clang's warnings come before it optimises.
func optimises(t *testing.T, name string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", name, err)
	}
	return !strings.Contains(string(out), "clang")
}

// Rule: the headers and all programs in the repository that use them compile without warnings as
// C11 and later and as C++17 and later. They do so with GCC and Clang, without and with
// optimisation. Two parts of a program may both include the headers. With -short it is the oldest
// of these languages, without optimisation.
func TestHeadersCompile(t *testing.T) {
	headers := []string{"funi.h", "../libfunet/funet.h"}
	var sources []string
	for _, pattern := range []string{"example/*.c", "../libfunet/example/*.c", "../attach/testdata/*.c",
		"../../ctl/daemon/testdata/waiting.c", "../../ctl/bench/c/*.c", "../../tests/programs/*.c"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		sources = append(sources, files...)
	}
	read(t, sources)
	dir := t.TempDir()
	for _, h := range headers {
		h = filepath.Base(h)
		file := filepath.Join(dir, strings.TrimSuffix(h, ".h")+".c")
		if err := os.WriteFile(file, fmt.Appendf(nil,
			"#include %q\n#include %q\nint one(void);\nint one(void) { return 1; }\n", h, h), 0o600); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, file)
	}
	var work sync.WaitGroup
	places := make(chan struct{}, 2) // compilers at a time
	compile := func(name, language, standard string, how, files []string) {
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			arguments := slices.Concat([]string{"-x", language, "-std=" + standard, "-I.", "-I../libfunet"}, strict, how,
				files)
			if out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
			}
		})
	}
	for language, names := range compilers(t) {
		for _, name := range names {
			for i, standard := range standards[language] {
				if i == 0 || !testing.Short() {
					compile(name, language, standard, []string{"-fsyntax-only"}, sources)
				}
			}
			if testing.Short() || language != "c" || !optimises(t, name) {
				continue // GCC optimises both languages alike
			}
			for _, source := range sources {
				compile(name, language, standards[language][0], []string{"-O2", "-S", "-o", os.DevNull},
					[]string{source})
			}
		}
	}
	work.Wait()
}

// refusals is a program without a card that sends what cannot be sent.
const refusals = `
#include "funi.h"

static struct funi_page page;
static uint32_t slots[4 * FUNI_SLOT_WORDS];
static struct funi_context c;

static void look(const char *what, int code)
{
	printf("%s: %d %s, head %u\n", what, code, code != 0 ? c.error : "", page.reg[FUNI_RQSQ_HEAD].word);
	c.error[0] = 0;
}

static void message(const char *what, volatile uint32_t type, volatile uint32_t words)
{
	uint32_t *s = funi_send_reserve(&c, FUNI_REQUEST);
	s[0] = funi_header(7, type, words);
	look(what, funi_send_commit(&c, FUNI_REQUEST));
}

static void transfer(const char *what, volatile uint32_t type, volatile uint32_t source, volatile uint32_t destination, volatile uint32_t words)
{
	uint32_t *s = funi_send_reserve(&c, FUNI_REQUEST);
	funi_transfer(s, 7, type, source, destination, 0, words);
	look(what, funi_send_commit(&c, FUNI_REQUEST));
}

int main(void)
{
	c.page = &page;
	c.mask = 3;
	c.send[FUNI_REQUEST].slots = slots;
	c.send[FUNI_REQUEST].own = &page.reg[FUNI_RQSQ_HEAD].word;
	c.send[FUNI_REQUEST].its = &page.reg[FUNI_RQSQ_TAIL].word;
	message("type 512", 512, 1);
	message("type 600", 600, 1);
	message("type 2^32-1", 0xffffffff, 21);
	message("22 words", 1, 22);
	message("30 words", 1, 30);
	message("32 words", 1, 32);
	message("2^31 words", 511, 0x80000000);
	transfer("3 words", 1, 16, 16, 3);
	transfer("2^24+4 words", 1, 16, 16, (1 << 24) + 4);
	transfer("20 words from a slot", 1, 0, 16, 20);
	transfer("20 words to a queue", 1, 16, 0, 20);
	transfer("type 512 of 8", 512, 16, 16, 8);
	transfer("type 512 of 20", 512, 16, 16, 20);
	message("type 511", 511, 21);
	transfer("2^24 words", 511, 16, 16, 1 << 24);
	printf("%x %x %x\n", slots[0], slots[32], slots[36]);
	return 0;
}
`

// refused is the text of the refusal.
const refused = `type 512: -22 sending: types are 0 to 511, head 0
type 600: -22 sending: types are 0 to 511, head 0
type 2^32-1: -22 sending: types are 0 to 511, head 0
22 words: -22 sending: a message has at most 21 words, head 0
30 words: -22 sending: a message has at most 21 words, head 0
32 words: -22 sending: a message has at most 21 words, head 0
2^31 words: -22 sending: a message has at most 21 words, head 0
3 words: -22 sending: a transfer has a multiple of 4 words, at most 2^24 from memory to memory and 16 otherwise, head 0
2^24+4 words: -22 sending: a transfer has a multiple of 4 words, at most 2^24 from memory to memory and 16 otherwise, head 0
20 words from a slot: -22 sending: a transfer has a multiple of 4 words, at most 2^24 from memory to memory and 16 otherwise, head 0
20 words to a queue: -22 sending: a transfer has a multiple of 4 words, at most 2^24 from memory to memory and 16 otherwise, head 0
type 512 of 8: -22 sending: types are 0 to 511, head 0
type 512 of 20: -22 sending: types are 0 to 511, head 0
type 511: 0 , head 1
2^24 words: 0 , head 2
fff50007 ffe00007 0
`

// Rule: a header that cannot be sent is refused when it is sent, and changes nothing, whatever its
// type and length would be if their high bits were left out.
func TestHeaderRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "refusals.c")
	if err := os.WriteFile(file, []byte(refusals), 0o600); err != nil {
		t.Fatal(err)
	}
	for language, names := range compilers(t) {
		for _, name := range names {
			program := filepath.Join(dir, name)
			arguments := append([]string{"-x", language, "-O2", "-std=" + standards[language][0], "-I.", "-o", program,
				file}, strict...)
			if out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
			out, err := exec.CommandContext(t.Context(), program).Output()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(refused, "fff50007 ffe00007 0",
				fmt.Sprintf("%x %x %x", uint32(511<<21|21<<16|7), uint32(3<<30|511<<21|7), 1<<24), 1)
			if got := string(out); got != want {
				t.Errorf("%s: it printed\n%swant\n%s", name, got, want)
			}
		}
	}
}

// Rule: where the compiler sees the numbers it warns of such a header before the program runs.
func TestHeaderWarns(t *testing.T) {
	long.Test(t)
	warning := regexp.MustCompile(`funi_send_commit will refuse it`)
	for _, c := range []struct {
		statement string
		warns     bool
	}{
		{"slot[0] = funi_header(1, 511, 21);", false},
		{"slot[0] = funi_header(1, 512, 21);", true},
		{"slot[0] = funi_header(1, 511, 22);", true},
		{"slot[0] = funi_header(1, type, 22);", true},
		{"slot[0] = funi_header(1, type, words);", false},
		{"funi_transfer(slot, 1, 1, 16, 16, 0, 1 << 24);", false},
		{"funi_transfer(slot, 1, 1, 16, 16, 0, 6);", true},
		{"funi_transfer(slot, 1, 1, 16, 16, 0, words);", false},
	} {
		file := filepath.Join(t.TempDir(), "warns.c")
		source := fmt.Sprintf("#include \"funi.h\"\nvoid compose(uint32_t *slot, uint32_t type, uint32_t words);\n"+
			"void compose(uint32_t *slot, uint32_t type, uint32_t words) { (void)type; (void)words; %s }\n",
			c.statement)
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		for language, names := range compilers(t) {
			for _, name := range names {
				arguments := append([]string{"-x", language, "-O2", "-I.", "-c", "-o", file + ".o", file}, strict...)
				out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
				if (err != nil) != c.warns || c.warns && !warning.Match(out) {
					t.Errorf("%s, %s: %v\n%s", c.statement, name, err, out)
				}
			}
		}
	}
}
