package attach_test

// This file tests that processes and daemons of two releases that follow each other understand each
// other.

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// frozen is what the release before sends: one message of each type in the order of messages, a
// name and its bytes in each line. They were recorded by its own code; the answer to a request for
// a port is of the first release that has ports.
//
//go:embed testdata/release-before.txt
var frozen string

// Rule (Version): what the release before sends is read, and the same is sent in the same bytes, so
// that it reads that. A type of message that is new is asked for by a kind that it refuses
// (ErrKind); it reads no message that has grown. Whoever must change one makes a Version of it, and
// reads and answers both.
func TestReleaseBefore(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(frozen), "\n")
	if len(lines) > len(messages) {
		t.Fatalf("%d types of messages are left of %d", len(messages), len(lines))
	}
	for i, line := range lines {
		name, text, _ := strings.Cut(line, ": ")
		b, err := hex.DecodeString(text)
		if err != nil || name != messages[i].name {
			t.Fatalf("%q is for %q: %v", line, messages[i].name, err)
		}
		again, err := messages[i].decode(b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %x becomes %x, %v", name, b, again, err)
		}
	}
	// A kind that one of the two does not know is refused in a message that the other reads.
	refused := attach.EncodeRefusal(attach.KindPort, fmt.Errorf("no: %w", attach.ErrKind))
	if b := hex.EncodeToString(refused); b[:16] != "46554e4901001080" || b[24:40] != "030000006e6f3a20" {
		t.Errorf("a refusal is %s", b)
	}
}
