// This file turns the bytes of a file into a tree: the limits, and the parser's errors.

package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Errors for what is wrong with a file of any format, for errors.Is, beside the format's own error.
var (
	ErrTooLarge     = errors.New("file too large")  // more than Format.MaxBytes
	ErrUnknownKey   = errors.New("unknown key")     // a key that the format does not have
	ErrDuplicateKey = errors.New("key given twice") // a key twice in one mapping
)

// Format is a kind of file.
type Format struct {
	Noun     string // for errors, without an article, such as "profile"
	MaxBytes int    // of a file
	// MaxDepth is how many brackets, or signs of lists and keys at the start of a line, may be open
	// at once. The parser descends once for each.
	MaxDepth int
	Invalid  error // wrapped by every error about what a file says
}

// ReadFile reads the file at path. If the file is longer than the format allows, it reads one byte
// more than that, for Parse to refuse. Errors are those of package os.
func (f *Format) ReadFile(path string) ([]byte, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, int64(f.MaxBytes)+1))
}

// byteOrderMark is what some editors of Windows write before text in UTF-8 (YAML 1.2.2, 5.2).
const byteOrderMark = "\xef\xbb\xbf"

// Parse returns the root of the only document in data, nil if there is none; name stands for the
// file in errors, which wrap Invalid. Any bytes are safe to give.
func (f *Format) Parse(name string, data []byte) (root *Node, err error) {
	if len(data) > f.MaxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes: %w: %w", name, f.MaxBytes, ErrTooLarge, f.Invalid)
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	if line, column := tooDeep(data, f.MaxDepth); line != 0 {
		return nil, fmt.Errorf("%s:%d:%d: nested deeper than a %s can be: %w", name, line, column, f.Noun, f.Invalid)
	}
	defer func() {
		// A fault in the YAML parser is an error about the bytes that brought it about.
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("%s: the YAML parser failed (%s): %w", name,
				clip(strconv.Quote(fmt.Sprint(r))), f.Invalid)
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		where, why := name, err.Error()
		var at yaml.Error
		if errors.As(err, &at) {
			where, why = position(name, at.GetToken()), at.GetMessage()
		}
		why, _, _ = strings.Cut(why, "\n")
		return nil, fmt.Errorf("%s: %s: %w", where, why, f.Invalid)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		_, directive := doc.Body.(*ast.DirectiveNode) // such as %YAML 1.2, in front of the document
		switch {
		case doc.Body == nil, directive && body == nil:
		case body != nil:
			second := Node{format: f, file: name, ast: doc.Body}
			return nil, second.Errorf("a second YAML document; a %s is one", f.Noun)
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return nil, nil
	}
	return &Node{format: f, file: name, ast: body}, nil
}

// tooDeep returns the place, counted from 1, where more than most brackets are open, or a line
// begins with more than most signs of lists and keys. If there is none it returns 0. The line "- -
// - x" begins with three signs: it is a list in a list in a list. The parser descends once for each
// level, and a program cannot recover from a stack that overflows, so this check runs first.
// Brackets in comments and strings count, too. To tell them apart is the parser's work, and no real
// file leaves that many open.
func tooDeep(data []byte, most int) (line, column int) {
	open, begun, leading := 0, 0, true
	line = 1
	for _, c := range data {
		column++
		switch c {
		case '\n', '\r':
			if c == '\n' {
				line++
			}
			column, begun, leading = 0, 0, true
			continue
		case '-', '?', ':':
			if leading {
				begun++
			}
		case ' ', '\t':
		case '[', '{':
			open++
			leading = false
		case ']', '}':
			open = max(0, open-1)
			leading = false
		default:
			leading = false
		}
		if open > most || begun > most {
			return line, column
		}
	}
	return 0, 0
}

// position names file, line and column of a token, or the file alone if it has none.
func position(file string, tk *token.Token) string {
	if tk == nil || tk.Position == nil {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, tk.Position.Line, tk.Position.Column)
}

// clip bounds the part of its input that an error repeats.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
