// Named labs: their life, what survives whom, and what happens when several want the same name.

package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func find(t *testing.T, name string) *Info {
	t.Helper()
	infos, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if i.Name == name {
			return &i
		}
	}
	return nil
}

// A named lab outlives the process that made it, works for another that opens it, is seen by
// ip-netns(8), and leaves nothing once it is down.
func TestNamedLife(t *testing.T) {
	leavesNothing(t)
	name := labName("life")
	if a := start(t, "up "+name); len(a.lines) != 0 {
		t.Fatal(a.lines)
	}
	defer func() {
		if err := Down(name); err != nil && !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}()
	if i := find(t, name); i == nil || i.State != "up" || i.Owner != 0 || i.Hosts != 2 || i.Topology != Pair ||
		i.MTU != DefaultMTU || i.Created.IsZero() {
		t.Errorf("List: %+v", i)
	}
	if removed, err := RemoveStale(); err != nil || slices.Contains(removed, name) {
		t.Errorf("RemoveStale: %q, %v", removed, err)
	}
	l, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, l)
	namespaces := inodes(t, l)
	for i, h := range l.Hosts() {
		ino, err := inode(filepath.Join(netnsDir, h.Namespace))
		if err != nil || ino != namespaces[i] {
			t.Errorf("%s is namespace %d (%v), want %d", h.Namespace, ino, err, namespaces[i])
		}
	}
	out, err := exec.Command("ip", "netns", "exec", l.Hosts()[1].Namespace, "cat",
		"/sys/class/net/fu0/address").Output()
	if err != nil || string(out) != l.Hosts()[1].Interfaces[0].MAC.String()+"\n" {
		t.Errorf("ip netns exec: %q, %v", out, err)
	}

	// Close ends what is ours and leaves the lab.
	cmd := l.Command(0, "sleep", "600")
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if alive(cmd.Process.Pid) {
		t.Error("a child lives on after Close")
	}
	if l, err = Open(name); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(); err != nil {
		t.Error(err)
	}
	gone(t, namespaces)
	for _, err := range []error{l.Down(), Down(name)} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("Down of a lab that is down: %v", err)
		}
	}
	if _, err := Open(name); !errors.Is(err, ErrNotFound) {
		t.Errorf("Open of a lab that is down: %v", err)
	}
	if i := find(t, name); i != nil {
		t.Errorf("List: %+v", i)
	}
}

func TestAlreadyUp(t *testing.T) {
	l := mustUp(t, Options{Hosts: 3, Name: labName("up")})
	_, err := Up(Options{Hosts: 2, Name: labName("up")})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "funet lab down "+labName("up")) {
		t.Errorf("want ErrExists with the cure: %v", err)
	}
	exchange(t, l) // the first is not harmed
}

func TestOneOfManyWins(t *testing.T) {
	leavesNothing(t)
	var wg sync.WaitGroup
	var won atomic.Int32
	for range 6 {
		wg.Go(func() {
			l, err := Up(Options{Hosts: 3, Name: labName("race")})
			switch {
			case err == nil:
				won.Add(1)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, ErrExists):
				t.Error(err)
			}
		})
	}
	// Other processes want it too.
	var actors []*actor
	for range 2 {
		actors = append(actors, start(t, "up "+labName("race")))
	}
	wg.Wait()
	for _, a := range actors {
		if len(a.lines) == 0 {
			won.Add(1)
		} else if !strings.Contains(a.lines[0], "already exists") {
			t.Error(a.lines)
		}
	}
	if won.Load() != 1 {
		t.Errorf("%d made the same lab", won.Load())
	}
	l, err := Open(labName("race"))
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, l) // the losers have not harmed the winner's
	if err := l.Down(); err != nil {
		t.Error(err)
	}
}

// A maker that is alive keeps its lab; one that was killed loses it at the next command.
func TestKilledWhileBuilding(t *testing.T) {
	leavesNothing(t)
	name := labName("build")
	a := start(t, "building "+name)
	if !a.ready {
		t.Fatal(a.lines)
	}
	// hosts, hub and state
	if c := takeCensus(t); c.labs != 5 {
		t.Errorf("%d things of a lab that is being built, want 5", c.labs)
	}
	if i := find(t, name); i == nil || i.State != "building" || i.Owner != a.cmd.Process.Pid {
		t.Errorf("List: %+v", i)
	}
	if removed, err := RemoveStale(); err != nil || slices.Contains(removed, name) {
		t.Errorf("RemoveStale while the maker lives: %q, %v", removed, err)
	}
	if _, err := Open(name); !errors.Is(err, ErrBusy) {
		t.Errorf("Open while the maker lives: %v", err)
	}
	if err := Down(name); !errors.Is(err, ErrBusy) {
		t.Errorf("Down while the maker lives: %v", err)
	}
	if _, err := Up(Options{Hosts: 2, Name: name}); !errors.Is(err, ErrExists) {
		t.Errorf("Up while the maker lives: %v", err)
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Its parent has not waited for it: a zombie is dead too.
	eventually(t, "lab is stale", func() bool { return find(t, name).State == "stale" })
	if _, err := Open(name); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open of a stale lab: %v", err)
	}
	a.kill()
	removed, err := RemoveStale()
	if err != nil || !slices.Contains(removed, name) {
		t.Errorf("RemoveStale: %q, %v", removed, err)
	}
	if c := takeCensus(t); c.labs != 0 {
		t.Errorf("%d things left of a stale lab", c.labs)
	}
}

// Up itself removes what is stale, also under the same name.
func TestUpReplacesStale(t *testing.T) {
	leavesNothing(t)
	name := labName("stale")
	a := start(t, "building "+name)
	if !a.ready {
		t.Fatal(a.lines)
	}
	a.kill()
	l, err := Up(Options{Hosts: 2, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, l)
	if err := l.Down(); err != nil {
		t.Error(err)
	}
}

func TestKilledWhileRemoving(t *testing.T) {
	leavesNothing(t)
	name := labName("rm")
	a := start(t, "removing "+name)
	if !a.ready {
		t.Fatal(a.lines)
	}
	a.kill() // it held the lock, which the kernel takes back
	if i := find(t, name); i == nil || i.State != "stale" {
		t.Errorf("List: %+v", i)
	}
	if _, err := Open(name); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open: %v", err)
	}
	if err := Down(name); err != nil { // Down of a stale lab is as good as RemoveStale
		t.Error(err)
	}
	if c := takeCensus(t); c.labs != 0 {
		t.Errorf("%d things left of a stale lab", c.labs)
	}
}

// A process with the owner's pid that started at another time is not the owner.
func TestPidUsedAgain(t *testing.T) {
	s := state{Stage: stageBuilding}
	if err := s.own(); err != nil {
		t.Fatal(err)
	}
	if s.stale() {
		t.Error("stale although its owner runs this test")
	}
	s.OwnerStart--
	if !s.stale() {
		t.Error("not stale although its owner's pid is now another process")
	}
	s.Stage = stageUp
	if s.stale() {
		t.Error("a lab that is up needs no owner")
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, err := startTime(pid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// A namespace that has the right name but is nobody's lab is neither used nor removed.
func TestForeignNamespace(t *testing.T) {
	leavesNothing(t)
	name := labName("own")
	o, err := Options{Hosts: 3, Name: name}.complete()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(netnsDir, hubNamespace(name))
	s, err := newSpace(func() error {
		if err := unshareNet(); err != nil {
			return err
		}
		return mountNamespace(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if _, err := Up(o); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "ip netns delete") {
		t.Errorf("want ErrExists with the cure: %v", err)
	}
	if find(t, name) != nil {
		t.Error("a lab was entered")
	}
	if _, err := inode(path); err != nil {
		t.Error(err)
	}
	// If it comes after the look, what was made up to there is taken back.
	if _, err := construct(o); !errors.Is(err, os.ErrExist) {
		t.Errorf("construct: %v", err)
	}
	for _, n := range namespaces(o) {
		if err := removeNamespace(filepath.Join(netnsDir, n)); err != nil {
			t.Error(err)
		}
	}
}

// Up that fails half-way leaves nothing: here the second cable cannot be made because the hub
// already has a link of that name.
func TestUndo(t *testing.T) {
	leavesNothing(t)
	o, err := Options{Hosts: 3, Name: labName("undo")}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if err := claim(o); err != nil {
		t.Fatal(err)
	}
	spaces, err := makeSpaces(o)
	if err != nil {
		t.Fatal(err)
	}
	hosts, cables := plan(o)
	cables[1].b.name = cables[0].b.name
	if err := build(o, hosts, cables, spaces); !errors.Is(err, unix.EEXIST) {
		t.Errorf("build: %v", err)
	}
	if err := release(spaces, true); err != nil {
		t.Error(err)
	}
	if err := withdraw(o); err != nil {
		t.Error(err)
	}
	if c := takeCensus(t); c.labs != 0 {
		t.Errorf("%d things left", c.labs)
	}
}

// A lab that somebody took apart with other tools is reported, and can still be removed.
func TestDamaged(t *testing.T) {
	l := mustUp(t, Options{Hosts: 3, Name: labName("dmg")})
	path := filepath.Join(netnsDir, l.Hosts()[1].Namespace)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"not a namespace", "is gone"} {
		_, err := Open(labName("dmg"))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), what) {
			t.Errorf("want ErrDamaged, %s: %v", what, err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := l.Down(); err != nil {
		t.Error(err)
	}
}

// A state file is not trusted: it decides what is unmounted. A bad one is reported, and stops only
// the lab of its name.
func TestBadStateFile(t *testing.T) {
	leavesNothing(t)
	name := labName("bad")
	for _, content := range []string{
		"", "{", "[]", `{"name": "other", "state": "up", "hosts": 2}`,
		`{"name": "../../tmp", "state": "up", "hosts": 2}`,
		`{"name": "` + name + `", "state": "up", "hosts": 1000000}`,
		`{"name": "` + name + `", "state": "hovering", "hosts": 2}`,
	} {
		err := locked(func() error { return os.WriteFile(statePath(name), []byte(content), 0o644) })
		if err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"Open":        func() error { _, err := Open(name); return err },
			"Down":        func() error { return Down(name) },
			"List":        func() error { _, err := List(); return err },
			"RemoveStale": func() error { _, err := RemoveStale(); return err },
			"Up":          func() error { _, err := Up(Options{Hosts: 2, Name: name}); return err },
		} {
			if err := f(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), statePath(name)) {
				t.Errorf("%s with state %q: %v", what, content, err)
			}
		}
	}
	l, err := Up(Options{Hosts: 2, Name: labName("good")})
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := List(); len(infos) != 1 || infos[0].Name != labName("good") || !errors.Is(err, ErrDamaged) {
		t.Errorf("List: %+v, %v", infos, err)
	}
	if err := l.Down(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(statePath(name)); err != nil {
		t.Error(err)
	}
}

// A lab that was left stale and cannot be removed is reported as stale, not as being built.
func TestStaleStays(t *testing.T) {
	leavesNothing(t)
	name := labName("stay")
	a := start(t, "building "+name)
	if !a.ready {
		t.Fatal(a.lines)
	}
	a.kill()
	// In the place of the file of the hub there is a directory with something in it.
	hub := filepath.Join(netnsDir, hubNamespace(name))
	if err := os.Remove(hub); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(hub, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func() error{
		"RemoveStale": func() error { _, err := RemoveStale(); return err },
		"Up":          func() error { _, err := Up(Options{Hosts: 2, Name: name}); return err },
		"Down":        func() error { return Down(name) },
	} {
		if err := f(); !errors.Is(err, unix.ENOTEMPTY) || !strings.Contains(err.Error(), hub) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.RemoveAll(hub); err != nil {
		t.Fatal(err)
	}
	if removed, err := RemoveStale(); err != nil || !slices.Equal(removed, []string{name}) {
		t.Errorf("RemoveStale: %q, %v", removed, err)
	}
}
