package funi_test

// This file compares seeds of funi.h with those of package rats, and holds what funi.h refuses of
// remote memory.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/uspace/rats"
)

// run compiles a program with funi.h, and returns what it prints when it is given the input.
func run(t *testing.T, source, input string) string {
	t.Helper()
	read(t, []string{"funi.h"})
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic",
		"-Werror", "-I.", "-o", file, file+".c").CombinedOutput(); err != nil {
		t.Fatalf("compiling with cc, which gcc or clang brings: %v\n%s", err, out)
	}
	c := exec.CommandContext(t.Context(), file)
	c.Stdin = strings.NewReader(input)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v; it printed %q", err, out)
	}
	return string(out)
}

// seeds is a program that reads texts of seeds, in which ~ stands for the end of a line, with a
// number of bytes to split off each, and says what they are.
const seeds = `
#include "funi.h"

int main(void)
{
	static char line[200];
	unsigned bytes;
	while (scanf("%199s %u", line, &bytes) == 2) {
		struct funi_seed s, part;
		char text[FUNI_SEED_TEXT], of[FUNI_SEED_TEXT];
		for (char *c = line; *c != 0; c++)
			if (*c == '~')
				*c = '\n';
		if (funi_parse_seed(line, &s) != 0) {
			puts("none");
			continue;
		}
		funi_seed_text(&s, text);
		printf("%u %u %u %llx %x %x %x %s", s.protocol, s.ticket.node, s.ticket.area, (unsigned long long)s.ticket.key, s.ticket.offset,
		       s.ticket.size, s.ticket.count, text);
		if (funi_split_seed(&s, bytes, &part) != 0) {
			puts(" whole");
			continue;
		}
		funi_seed_text(&part, of);
		funi_seed_text(&s, text);
		printf(" %s %s\n", of, text);
	}
	return 0;
}
`

// describe says of a seed's text what the program says.
func describe(text string, bytes uint32) string {
	s, err := rats.ParseSeed(strings.ReplaceAll(text, "~", "\n"))
	if err != nil {
		return "none"
	}
	line := fmt.Sprintf("%d %d %d %x %x %x %x %s", s.Protocol, s.Node, s.Area, s.Key, s.Offset, s.Size,
		s.Count, s.String())
	part, err := s.Split(bytes)
	if err != nil {
		return line + " whole"
	}
	return line + " " + part.String() + " " + s.String()
}

// Rule: funi.h and package rats take and refuse the same seeds, as bytes and as text, and split
// them alike (HPL-95-86, 2.5 and 3.2).
func TestSeedsOfCAndGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var input, want []string
	add := func(text string, bytes uint32) {
		input = append(input, fmt.Sprint(text, " ", bytes))
		want = append(want, describe(text, bytes))
	}
	for i := range 1000 {
		s := rats.Seed{Protocol: uint8(r.Uint32()), Ticket: rats.Ticket{
			Node: uint16(r.Uint32()), Area: uint16(r.Uint32()), Key: r.Uint64(), Offset: r.Uint32() >> (i % 32),
			Size: r.Uint32() >> (i % 33), Count: r.Uint32() >> (i % 34)}}
		text := s.String()
		for _, bytes := range []uint32{0, 1, s.Size / 2, s.Size - 1, s.Size, r.Uint32()} {
			add(text, bytes)
		}
		add(text[:i%43]+"~"+text[i%43:], 1)
		at := 1 + r.IntN(len(text)-1)
		// of another letter, if of one
		add(text[:at]+string("ABCxyz089-_+/=.,"[r.IntN(16)])+text[at+1:], 1)
		add(text[:at], 1)
		add(text+"A", 1)
	}
	got := strings.Split(strings.TrimSpace(run(t, seeds, strings.Join(input, "\n"))), "\n")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("seeds of Go and of funi.h (-Go +C):\n%.3000s", d)
	}
	if n := strings.Count(strings.Join(want, "\n"), "none"); n < 1000 || n > 5000 {
		t.Errorf("%d of %d are none", n, len(want))
	}
}

// remoteRefusals is a program without a card that asks for what it cannot have, fills its tables,
// and sees requests retired and returned.
const remoteRefusals = `
#include <assert.h>
#include "funi.h"

static struct funi_page page;
static uint32_t slots[16 * FUNI_SLOT_WORDS], memory[64];
static struct funi_context c;
static const struct funi_ticket ticket = { 1, 2, 3, 4, 100, 0 };

static void retire(uint32_t n) { page.reg[FUNI_RQSQ_TAIL].word = (page.reg[FUNI_RQSQ_TAIL].word + n) & 15; }

int main(void)
{
	uint32_t words[12] = { 0 }, h, first, reason;
	uint64_t key;
	uint16_t area;
	struct funi_return r;
	struct funi_notification n;

	c.page = &page;
	c.mask = 15;
	c.send[FUNI_REQUEST].slots = slots;
	c.send[FUNI_REQUEST].own = &page.reg[FUNI_RQSQ_HEAD].word;
	c.send[FUNI_REQUEST].its = &page.reg[FUNI_RQSQ_TAIL].word;

	/* without remote memory */
	assert(funi_expose(&c, memory, 4, &key, NULL) == -EOPNOTSUPP && funi_open_area(&c, 0, 1, 0, &area, NULL) == -EOPNOTSUPP);
	assert(funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, NULL) == -EOPNOTSUPP && funi_message_status(&c, 1, NULL) == -ENOENT);
	assert(funi_revoke(&c, 0, NULL) == -ENOENT && funi_close_area(&c, 0, NULL) == -ENOENT && funi_get_notification_record(&c, &n) == 0);

	c.remote = (struct funi_remote *)calloc(1, sizeof *c.remote);
	c.remote->keys = (struct funi_key_slot *)calloc(2, sizeof *c.remote->keys);
	c.remote->credits = (uint32_t *)calloc(2, sizeof *c.remote->credits);
	c.remote->sizes.key_slots = c.remote->sizes.areas = c.remote->sizes.notifications = 2;
	assert(funi_fill_numbers(&c.remote->key_slots, 2) == 0 && funi_fill_numbers(&c.remote->areas, 2) == 0);
	funi_note_segment(&c, 0x2000, memory, sizeof memory, FUNI_KEYED);

	/* memory that is no segment's, and of one without the right; lengths and words beyond what
	 * is allowed, and their neighbours */
	assert(funi_expose(&c, words, 4, &key, NULL) == -EFAULT && funi_expose(&c, memory, 0, &key, NULL) == -EFAULT);
	assert(funi_expose(&c, memory + 1, sizeof memory, &key, NULL) == -EFAULT);
	assert(funi_sendmsg(&c, &ticket, memory, 65, NULL, 0, NULL) == -EFAULT && funi_sendmsg(&c, &ticket, memory, 61, words, 1, NULL) == -EFAULT);
	assert(funi_sendmsg(&c, &ticket, memory, 101, NULL, 0, NULL) == -EMSGSIZE && funi_sendmsg(&c, &ticket, memory, 0, words, 12, NULL) == -EMSGSIZE);
	assert(funi_write_remote(&c, &ticket, 97, memory, 4, NULL) == -EMSGSIZE && funi_write_remote(&c, &ticket, UINT32_MAX, memory, 4, NULL) == -EMSGSIZE);
	assert(funi_unsent(&c, FUNI_REQUEST) == 0);
	assert(funi_sendmsg(&c, &ticket, memory, 64, NULL, 0, &h) == 0 && funi_write_remote(&c, &ticket, 96, memory, 4, NULL) == 0);
	assert(funi_message_status(&c, h, NULL) == FUNI_COPIED && funi_message_status(&c, h + 2, NULL) == -ENOENT && funi_message_status(&c, 0, NULL) == -ENOENT);
	retire(1);
	assert(funi_message_status(&c, h, NULL) == FUNI_SENT && funi_message_status(&c, h + 1, NULL) == FUNI_COPIED);
	retire(1);

	/* full tables, and numbers that come back; a key that is not open */
	uint64_t other;
	assert(funi_expose(&c, memory, 4, &key, NULL) == 0 && funi_expose(&c, memory, sizeof memory, &other, NULL) == 0 && key != other);
	assert((uint16_t)key == 0 && (uint16_t)other == 1 && funi_expose(&c, memory, 4, &other, NULL) == -ENOBUFS);
	assert(funi_revoke(&c, key + 0x10000, NULL) == -ENOENT && funi_revoke(&c, key, NULL) == 0 && funi_revoke(&c, key, NULL) == -ENOENT);
	assert(funi_expose(&c, memory, 4, &other, NULL) == 0 && (uint16_t)other == 0 && other != key);
	assert(funi_open_area(&c, other, 1, 0, &area, NULL) == 0 && funi_open_area(&c, other, 1, 0, &area, NULL) == 0 && area == 1);
	assert(funi_open_area(&c, other, 1, 0, &area, NULL) == -ENOBUFS && funi_close_area(&c, 2, NULL) == -ENOENT && funi_reset_area(&c, 2, NULL) == -ENOENT);
	assert(funi_close_area(&c, 1, NULL) == 0 && funi_open_area(&c, other, 1, 0, &area, NULL) == 0 && area == 1);

	/* a full queue: nothing happens */
	while (funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, &h) == 0)
		;
	assert(funi_unsent(&c, FUNI_REQUEST) == 15 && funi_reset_area(&c, 1, NULL) == -ENOBUFS && strstr(c.error, "no room") != NULL);
	retire(15);
	first = h;

	/* a message that came back is noted, and others stay visible; a handle lives for 1024 more */
	page.returns[0].reason = FUNI_REASON_RANGE;
	page.returns[0].header = FUNI_MANY_BIT | 1;
	page.returns[0].word = h;
	page.returns[1].reason = FUNI_REASON_SILENT;
	page.returns[1].word = h;
	page.return_head.word = 2;
	assert(funi_returned(&c, &r) == 1 && r.reason == FUNI_REASON_SILENT && funi_returned(&c, &r) == 0);
	assert(funi_message_status(&c, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_RANGE);
	for (int i = 0; i < 1023; i++) {
		assert(funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, &h) == 0);
		retire(1);
	}
	assert(funi_message_status(&c, first, NULL) == FUNI_FAILED && funi_message_status(&c, h, NULL) == FUNI_SENT);
	assert(funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, &h) == 0 && funi_message_status(&c, first, NULL) == -ENOENT);

	/* records: what lies in the ring is bounded */
	static uint32_t ring[2 * FUNI_NOTE_BYTES / 4];
	c.remote->ring = ring;
	ring[0] = 3 << 16 | 4;
	ring[1] = UINT32_MAX;
	page.notes_head.word = 1;
	assert(funi_news(&c) == 1 && funi_get_notification_record(&c, &n) == 1 && n.key_slot == 3 && n.area == 4 && n.source == 65535 && n.words == FUNI_MAX_METADATA);
	assert(page.notes_tail.word == 1 && funi_get_notification_record(&c, &n) == 0 && funi_news(&c) == 0);

	/* more came back than the return ring holds: what may be among it fails when its slot is
	 * retired, and not what went elsewhere */
	const struct funi_ticket elsewhere = { 2, 2, 3, 4, 100, 0 };
	retire(1);
	assert(funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, &h) == 0 && funi_sendmsg(&c, &elsewhere, memory, 4, NULL, 0, &first) == 0);
	page.lost_to[1] = FUNI_LOST_ONE | 1;
	page.returns_lost.word = 1;
	assert(funi_message_status(&c, h, &reason) == FUNI_COPIED && reason == 0);
	retire(1);
	assert(funi_message_status(&c, h, &reason) == FUNI_FAILED && reason == FUNI_UNTOLD && page.return_tail.pad[0] == 1);
	retire(1);
	assert(funi_message_status(&c, first, &reason) == FUNI_SENT && reason == 0);
	assert(funi_sendmsg(&c, &ticket, memory, 4, NULL, 0, &h) == 0);
	retire(1);
	assert(funi_message_status(&c, h, NULL) == FUNI_SENT);

	/* so with operations: the one that the card does not complete has come back, and until that
	 * is known no other leaves */
	static uint32_t longer[8 * FUNI_NOTE_BYTES / 4];
	const struct funi_target word = { 1, 2, 0 };
	uint64_t one = 1;
	c.remote->ring = longer;
	c.remote->sizes.notifications = 8;
	c.remote->credit = 0;
	assert(funi_atomic(&c, &word, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, &h) == 0 && funi_atomic(&c, &word, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, &first) == 0);
	retire(2);
	page.operations_lost = 1;
	page.returns_lost.word = 2;
	assert(funi_returned(&c, &r) == 0 && funi_message_status(&c, h, NULL) == FUNI_PENDING);
	assert(funi_atomic(&c, &word, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, NULL) == -ENOBUFS);
	longer[FUNI_NOTE_BYTES / 4] = first;
	longer[FUNI_NOTE_BYTES / 4 + FUNI_NOTE_KIND_WORD] = FUNI_NOTE_COMPLETION;
	page.notes_head.word = 2;
	page.completed = 1;
	assert(funi_await(&c, first, NULL, 0, 0) == 0 && funi_await(&c, h, NULL, 0, 0) == -EREMOTEIO);
	assert(funi_message_status(&c, h, &reason) == FUNI_FAILED && reason == FUNI_UNTOLD && funi_quiet(&c, 0) == 0);
	assert(funi_atomic(&c, &word, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, NULL) == 0);
	retire(1);
	page.operations_lost = 2;
	page.returns_lost.word = 3;
	assert(funi_quiet(&c, 0) == -EREMOTEIO && funi_quiet(&c, 0) == 0);

	/* sizes that are none */
	const struct funi_remote_sizes wrong[4] = { { 3, 4, 4 }, { 4, 0, 4 }, { 0, 4, 4 }, { 4, 4, 2097152 } };
	const uint8_t token[FUNI_TOKEN_SIZE] = { 0 };
	for (int i = 0; i < 4; i++)
		assert(funi_attach_remote(&c, "/nowhere", 1, 0, token, 0, &wrong[i]) == -EINVAL);
	puts("done");
	return 0;
}
`

// Rule: what cannot be is refused with the documented error, and nothing has happened; handles and
// records say what the header says.
func TestRemoteRefusalsOfC(t *testing.T) {
	if got := run(t, remoteRefusals, ""); got != "done\n" {
		t.Errorf("it printed %q", got)
	}
}
