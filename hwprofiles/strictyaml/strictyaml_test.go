package strictyaml

// This file tests what every format has in common: places, refusals, and that no bytes break it.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errThing = errors.New("not a thing")

var things = Format{Noun: "thing", MaxBytes: 1 << 12, MaxDepth: 8, Invalid: errThing}

type colour int

func (c colour) String() string { return [...]string{"red", "blue"}[c] }

// thing is a format with a field of every kind.
type thing struct {
	name   string
	on     bool
	count  int
	port   uint16
	wait   time.Duration
	colour colour
	lines  []string
	inner  int
}

func read(data string) (t thing, err error) {
	top, err := things.Parse("t.yaml", []byte(data))
	if err != nil || top == nil {
		return t, err
	}
	return t, top.Fields(
		Text("name", &t.name),
		Bool("on", &t.on),
		Number("count", &t.count, -5, 5),
		Number("port", &t.port, 1, 65535),
		Duration("wait", &t.wait),
		Choice("colour", &t.colour, 0, 1),
		Each("lines", func(n *Node) error {
			s, err := n.Text()
			t.lines = append(t.lines, s)
			return err
		}),
		Value("inner", func(n *Node) error { return n.Fields(Number("depth", &t.inner, 0, 9)) }),
	)
}

// Rule: a value stays as it was written, whatever YAML makes of it.
func TestAsWritten(t *testing.T) {
	got,
		err :=
		read("name: 007\non: true\ncount: -5\nport: 65535\nwait: 1.5s\ncolour: blue\nlines: [1.50, \"0x10\", 02:46:55:00:00:01]\ninner:\n  depth: 9\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.name != "007" || !got.on || got.count != -5 || got.port != 65535 || got.wait != 1500*time.Millisecond ||
		got.colour != 1 ||
		strings.Join(got.lines, " ") != "1.50 0x10 02:46:55:00:00:01" || got.inner != 9 {
		t.Errorf("%+v", got)
	}
	for _, nothing := range []string{"", "# nothing\n", "---\n"} {
		if top, err := things.Parse("t.yaml", []byte(nothing)); top != nil || err != nil {
			t.Errorf("%q: %v, %v; want neither", nothing, top, err)
		}
	}
}

// Rule: an error is one line that begins with file, line and column, says what is there and what is
// wanted, and wraps the format's error. A value that is refused does not reach its variable.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		text, want string
		is         error
	}{
		{"colour: green\n", `t.yaml:1:9: colour is "green", want red, blue: not a thing`, nil},
		{"\non: yes\n", `t.yaml:2:5: on is the text "yes", want true or false: not a thing`, nil},
		{"on: \"true\"\n", `t.yaml:1:5: on is the text "true", want true or false`, nil},
		{"on: 1\n", "t.yaml:1:5: on is 1, want true or false", nil},
		{"count: 6\n", `t.yaml:1:8: count is "6", want a number from -5 to 5`, nil},
		{"count: 0x1\n", `t.yaml:1:8: count is "0x1", want a number from -5 to 5`, nil},
		{"count: 1.0\n", `t.yaml:1:8: count is "1.0", want a number`, nil},
		{"count: 99999999999999999999\n", `t.yaml:1:8: count is "99999999999999999999", want`, nil},
		{"port: 65536\n", `t.yaml:1:7: port is "65536", want a number from 1 to 65535`, nil},
		{"port: -1\n", `t.yaml:1:7: port is "-1", want`, nil},
		{"wait: 5\n", `t.yaml:1:7: wait is "5", want a time such as 500ms or 5s`, nil},
		{"wait: 0s\n", `t.yaml:1:7: wait is "0s", want a time`, nil},
		{"name: ''\n", "t.yaml:1:7: name is empty; leave the key out for the default", nil},
		{"name:\n", "t.yaml:1:7: name is nothing, want one value", nil},
		{"name: [a]\n", "t.yaml:1:7: name is a list, want one value", nil},
		{"name: {a: b}\n", "t.yaml:1:7: name is a mapping, want one value", nil},
		{"name: &a b\n", "t.yaml:1:7: name is an anchor or alias, want one value", nil},
		{"name: !!str b\n", "t.yaml:1:7: name is a tag, want one value", nil},
		{"name: |\n  b\n", "t.yaml:1:7: name is a literal, want one value", nil},
		{"lines: a\n",
			`t.yaml:1:8: lines is the text "a", want a list in brackets with at least one value, or leave the key out`,
			nil},
		{"lines: []\n", "t.yaml:1:8: lines is a list, want a list in brackets with at least one value", nil},
		{"lines: [a, [b]]\n", "t.yaml:1:12: lines is a list, want one value", nil},
		{"inner: 5\n", "t.yaml:1:8: 5, want the keys depth", nil},
		{"inner:\n  width: 5\n", `t.yaml:2:3: unknown key "width", want depth: not a thing`, ErrUnknownKey},
		{"Name: a\n", `t.yaml:1:1: unknown key "Name", want name, on, count`, ErrUnknownKey},
		{"<<: {name: a}\n", `t.yaml:1:1: unknown key "<<", want`, ErrUnknownKey},
		{strings.Repeat("k", 99) + ": a\n", `t.yaml:1:1: unknown key "` + strings.Repeat("k", 60) + `...", want`,
			ErrUnknownKey},
		{"name: a\nname: b\n", `t.yaml:2:1: key given twice: "name" is at t.yaml:1:1 already; keep one: not a thing`,
			ErrDuplicateKey},
		{"hello\n", `t.yaml:1:1: the text "hello", want the keys name`, nil},
		{"- a\n", "t.yaml:1:1: a list, want the keys name", nil},
		{"name: a\n---\nname: b\n", "t.yaml:3:1: a second YAML document; a thing is one", nil},
		{"name: [a\n", "t.yaml:1:7: ", nil},
		{"name: *a\n", "t.yaml:1:7: ", nil},
		{"on: true\n\tname: a\n", "t.yaml:2:1: ", nil},
		{strings.Repeat("[", 100), "t.yaml:1:9: nested deeper than a thing can be: not a thing", nil},
		{"#\n" + strings.Repeat("- ", 100), "t.yaml:2:17: nested deeper than a thing can be", nil},
		{strings.Repeat("? ", 100), "t.yaml:1:17: nested deeper than a thing can be", nil},
		{strings.Repeat("#", things.MaxBytes+1), "t.yaml: more than 4096 bytes: file too large: not a thing",
			ErrTooLarge},
	} {
		got, err := read(c.text)
		if !errors.Is(err, errThing) || c.is != nil && !errors.Is(err, c.is) ||
			!strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v\n\twant %s", c.text, err, c.want)
		}
		if got.on || got.count != 0 || got.port != 0 || got.wait != 0 || got.colour != 0 {
			t.Errorf("%.40q is refused and gives %+v", c.text, got)
		}
	}
}

// Rule: what is nested as deep as the format allows is parsed.
func TestDepth(t *testing.T) {
	deep := func(n int) string { return "name: " + strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := read(deep(things.MaxDepth)); err == nil || !strings.Contains(err.Error(), "name is a list") {
		t.Errorf("%d brackets: %v; want them parsed, and a list refused", things.MaxDepth, err)
	}
	if _, err := read(deep(things.MaxDepth + 1)); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("%d brackets: %v; want them refused unparsed", things.MaxDepth+1, err)
	}
	if _, err := read(strings.Repeat("#[]\n", 100)); err != nil {
		t.Errorf("brackets that are closed: %v", err)
	}
}

// Rule: Number tells numbers without quotes and without leading zeros, as they were written.
func TestNumber(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0.5": "0.5", "27.2": "27.2", "-4": "-4", "040": "", "'40'": "",
		"fast": "", "[1]": "", "true": ""} {
		top, err := things.Parse("t.yaml", []byte("n: "+text))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := top.KeysOf("any key", func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := keys["n"].Number(); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, ok, want)
		}
	}
}

// Rule: a file without end is read to one byte beyond the limit and no further.
func TestReadFile(t *testing.T) {
	if data, err := things.ReadFile("/dev/zero"); err != nil || len(data) != things.MaxBytes+1 {
		t.Errorf("%d bytes, %v; want %d", len(data), err, things.MaxBytes+1)
	}
	path := filepath.Join(t.TempDir(), "t.yaml")
	if _, err := things.ReadFile(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// Rule: any bytes give a value or an error of one line that wraps the format's, never a panic.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "name: a\nlines: [b, c]\ninner: {depth: 1}\n", "? a\n: b", "&a [*a]", "!!map {", "a: |\n b\n",
		"%YAML 1.2\n---\nname:\n...\n",
		"\"\\x00\\u12\"", "\xff\xfe", "<<: *x", "- - - -\n -", "{? : }", "name: >-\n", "{a: [b, {c: ]}", "? - : -",
		"name: \"\\\n\"", "on: ~",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := read(string(data)); err != nil && (!errors.Is(err, errThing) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q", err)
		}
	})
}

// Rule: what editors and tools put around a document is no part of it, and places in errors do not
// count it: a byte order mark, and the line that names the version of YAML.
func TestMarks(t *testing.T) {
	for _, data := range []string{
		"name: a\n", "---\nname: a\n...\n", "\xef\xbb\xbfname: a\n", "\xef\xbb\xbf# made by an editor\r\nname: a\r\n",
		"%YAML 1.2\n---\nname: a\n",
		"%YAML 1.2\n---\nname: a\n...\n", "\xef\xbb\xbf%YAML 1.1\n# by a tool\n---\nname: a\n", "name: a\n---\n",
	} {
		if got, err := read(data); err != nil || got.name != "a" {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
	for data, want := range map[string]string{
		"\xef\xbb\xbfnome: a\n":                   "t.yaml:1:1: ",
		"%YAML 1.2\n---\nname: a\n---\nname: b\n": "a second YAML document",
		"name: a\n...\n%YAML 1.2\n---\nname: b\n": "a second YAML document",
		"\xef\xbb\xbf\xef\xbb\xbfname: a\n":       "unknown key",
		"%YAML 1.2\nname: a\n":                    "t.yaml:1:1: ",
	} {
		if _, err := read(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}
