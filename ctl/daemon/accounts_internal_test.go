package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// known is the users of the tests.
func known(name string) (uint32, error) {
	if n, ok := map[string]uint32{"root": 0, "alice": 1000, "bob": 1001}[name]; ok {
		return n, nil
	}
	n, err := strconv.ParseUint(name, 10, 32)
	return uint32(n), err
}

// Rule (subuid(5)): a number in a range is its owner's, whom a name or a number says; the first
// range that has it counts; an owner can be somebody's himself; ranges of root are accounts of
// their own. A malformed line is reported and left out, and the others count.
func TestSubordinateNumbers(t *testing.T) {
	var told []int
	s := parseSubordinates([]byte(strings.Join([]string{
		"# owners",
		"alice:100000:65536",
		"bob:165536:65536",
		"",
		"1002:300000:1",
		"bob:100000:65536",              // alice was first
		"nobody-9:400000:1",             // 7: nobody has that name
		"alice:1:2:3",                   // 8
		"alice:x:2",                     // 9
		"alice:5:-1",                    // 10
		"alice:4294967295:2",            // 11: beyond the last number
		"alice:0:10",                    // 12: root is nobody's
		"alice:7:0",                     // 13
		"root:500000:1000",              // containers of root's
		"root:600000:1000",              // and others
		"100005:700000:10",              // one of alice's has some too
		" bob:4294967295:1 ",            // the last number
		strings.Repeat("x", 1000) + ":", // 18
	}, "\n")), known, func(line int, why error) {
		if why == nil || strings.Contains(why.Error(), "\n") {
			t.Errorf("line %d: %v", line, why)
		}
		told = append(told, line)
	})
	if want := []int{7, 8, 9, 10, 11, 12, 13, 18}; !slices.Equal(told, want) {
		t.Errorf("lines %v are complained of, want %v", told, want)
	}
	for uid, want := range map[uint32]uint32{
		0: 0, 1000: 1000, 99999: 99999, 100000: 1000, 165535: 1000, 165536: 1001, 231071: 1001, 231072: 231072,
		300000: 1002, 300001: 300001, 500000: 500000, 500999: 500000, 501000: 501000, 600123: 600000,
		700003: 1000, 1<<32 - 1: 1001, 400000: 400000,
	} {
		if got := s.account(uid); got != want {
			t.Errorf("%d counts for %d, want %d", uid, got, want)
		}
	}
}

// Rule: no line breaks the reader, and whatever it takes, each user has one account, which is
// its own.
func TestAnySubordinateNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			number := rapid.OneOf(rapid.StringMatching(`[0-9]{1,11}`),
				rapid.SampledFrom([]string{"", "-1", "x", "0", "4294967295", "1000"}))
			lines = append(lines, rapid.SampledFrom([]string{"alice", "bob", "root", "1002", "nobody-9", ""}).Draw(t,
				"owner")+":"+
				number.Draw(t, "first")+":"+number.Draw(t, "count"))
		}
		s := parseSubordinates([]byte(strings.Join(lines, "\n")), known, func(int, error) {})
		for _, r := range s {
			if r.first == 0 || r.count == 0 || uint64(r.first)+uint64(r.count) > 1<<32 {
				t.Fatalf("%+v was taken", r)
			}
		}
		s.account(rapid.Uint32().Draw(t, "user")) // it ends
		if s.account(0) != 0 {
			t.Fatal("root is somebody's")
		}
	})
}

// Rule: a file is read when it has changed and at no other time; one that cannot be read leaves
// what was known, and one that is not there says that nobody has any.
func TestSubordinateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subuid")
	var told []string
	f := subordinateFile{path: path, tell: func(s string) { told = append(told, s) }}
	read := func(want subordinates, wantChanged bool, wantTold int) {
		t.Helper()
		told = nil
		s, changed := f.read()
		if !slices.Equal(s, want) || changed != wantChanged || len(told) != wantTold {
			t.Errorf("read %v, %v, said %q", s, changed, told)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	read(nil, false, 0)
	write("1000:100000:10\nnothing\n")
	read(subordinates{{100000, 10, 1000}}, true, 1)
	read(nil, false, 0)
	write("1000:100000:20\n")
	read(subordinates{{100000, 20, 1000}}, true, 0)
	write(strings.Repeat("x\n", 1000))
	read(nil, true, tellSubordinates+1)
	write(strings.Repeat("#", mostSubordinates+1))
	read(nil, false, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	read(nil, true, 0)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	read(nil, false, 1)
}

// Rule (reserve.go): whatever users do one after the other, nobody alone takes everything; a user
// who has nothing gets something as long as two are left; and as long as a quarter is free
// everybody gets what he asks for.
func TestReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.Int64Range(8, 5000).Draw(t, "of")
		users, all := make([]int64, 4), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			u := rapid.IntRange(0, len(users)-1).Draw(t, "user")
			more := rapid.Int64Range(1, of/4).Draw(t, "more")
			free := of - all
			switch got := spare(of, all, users[u], more); {
			case got && more > free:
				t.Fatalf("%d of %d that are left", more, free)
			case !got && all+more <= of/4*3:
				t.Fatalf("%d of %d are refused, %d of %d are in use", more, free, all, of)
			case got:
				users[u] += more
				all += more
			}
			if users[u] == of {
				t.Fatal("one has all")
			}
			if left := of - all; left >= 2 && !spare(of, all, 0, 1) {
				t.Fatalf("%d are left of %d, and who has nothing gets none", left, of)
			}
		}
	})
	var c capacity
	c.contexts, c.jobs, c.pieces, c.descriptors, c.bytes = 16, 16, 64, 128, 1<<20
	for what, more := range map[string]usage{
		"contexts": {contexts: 1}, "groups": {jobs: 1}, "pieces of shared memory": {pieces: 1},
		"bytes of shared memory": {bytes: 4096}, "descriptors": {connections: 1},
	} {
		var used usage
		for n := 0; ; n++ {
			err := c.reserved(7, used, used, more)
			if err != nil {
				if !strings.Contains(err.Error(), what) {
					t.Errorf("%s: %v", what, err)
				}
				break
			}
			if n > 1<<20 {
				t.Fatalf("%s are not bounded", what)
			}
			used.add(more, 1)
		}
		if err := c.reserved(8, used, usage{}, more); err != nil {
			t.Errorf("%s: another gets none: %v", what, err)
		}
	}
}

// Rule: what fails does not name a user whom nobody knows.
func TestUserNumber(t *testing.T) {
	if n, err := userNumber("4000000000"); n != 4000000000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := userNumber("root"); n != 0 || err != nil {
		t.Errorf("root is %d, %v", n, err)
	}
	for _, s := range []string{"", "nobody-9", "-1", fmt.Sprint(1 << 32)} {
		if n, err := userNumber(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
}
