package launch

// This file tests what the launcher and its agent say to each other.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// TestErrorsCross: what callers decide on is the same error on both ends, in the same words.
func TestErrorsCross(t *testing.T) {
	if a := refusal(nil); a.err() != nil {
		t.Errorf("no error became %v", a.err())
	}
	for _, cause := range []error{ErrNoDaemon, ErrProgram, attach.ErrTaken, attach.ErrForbidden, errors.New("other")} {
		b, err := json.Marshal(refusal(fmt.Errorf("doing it: %w", cause)))
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		if got := a.err(); got.Error() != "doing it: "+cause.Error() ||
			cause.Error() != "other" && !errors.Is(got, cause) {
			t.Errorf("%v became %v", cause, got)
		}
	}
}

// TestAgentRefuses: bytes that are no order end the agent with an error, and orders that
// cannot be carried out are answered.
func TestAgentRefuses(t *testing.T) {
	serve := func(in string, out io.Writer) error {
		return Serve(t.Context(), strings.NewReader(in), out, io.Discard, Agent{Socket: "/nonexistent/socket"})
	}
	const mark = `{"mark":"here"}` + "\n"
	for _, in := range []string{"what\n", "{}\n", "[]\n", "{\"start\":3}\n", "{\"info\":\n", "{\"info\":true}\n",
		mark + mark, strings.Repeat("x", 2*longestOrder)} {
		if err := serve(in, io.Discard); err == nil {
			t.Errorf("%.20q was understood", in)
		}
	}
	for in, says := range map[string]string{
		`{"info":true}`:                               ErrNoDaemon.Error(),
		`{"job":{"gid":1,"token":"1"}}`:               attach.ErrTokenText.Error(),
		`{"start":{"program":"eA==","token":"99"}}`:   attach.ErrTokenText.Error(),
		`{"find":{"program":"bm8tc3VjaC1wcm9ncmFt"}}`: ErrProgram.Error() + " no-such-program",
	} {
		r, out := io.Pipe()
		go func() {
			if err := serve(mark+in+"\n", out); err != nil {
				t.Errorf("%s ended the agent: %v", in, err)
			}
			out.Close()
		}()
		var got *answer
		lines := linesOf(r)
		if found, err := skipTo(lines, "here", &tail{}); !found {
			t.Fatal("the agent does not speak:", err)
		}
		if err := hear(lines, func(w *word) error {
			if w.Answer != nil {
				got = w.Answer
			}
			return nil
		}); err != nil || got == nil || !strings.Contains(string(got.Error), says) {
			t.Errorf("%s was answered with %+v (%v)", in, got, err)
		}
	}
	// No such order does anything, nor ends the agent.
	harmless := mark + `{"free":true}` + "\n" + `{"signal":15}` + "\n" + `{"input":{"data":"eA=="}}` + "\n" +
		`{"input":{"end":true}}` + "\n"
	if err := serve(harmless, io.Discard); err != nil {
		t.Error(err)
	}
}

// TestQuote: a shell gives back the word that was quoted.
func TestQuote(t *testing.T) {
	if q := quote(`a 'b' $c`); q != `'a '\''b'\'' $c'` {
		t.Errorf("quoted as %s", q)
	}
}

// TestExitCodes: as a shell has them.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		s      status
		code   int
		failed bool
	}{{status{}, 0, false}, {status{Code: 3}, 3, true}, {status{Signal: 9}, 137, true},
		{status{Lost: "gone"}, 255, true}} {
		if c.s.exitCode() != c.code || c.s.failed() != c.failed || c.failed && c.s.String() == "" {
			t.Errorf("%+v: code %d, failed %v, %v", c.s, c.s.exitCode(), c.s.failed(), c.s)
		}
	}
}
