package scratch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// parentEnv makes the test binary a process that makes a folder there and waits to be killed.
const parentEnv = "FUNET_SCRATCH_TEST_PARENT"

func TestMain(m *testing.M) {
	if parent := os.Getenv(parentEnv); parent != "" {
		f, err := Make(parent, "work-")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(f.Path())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other starts a process with a folder of its own.
func other(t *testing.T, parent string) (cmd *exec.Cmd, path string) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), parentEnv+"="+parent)
	if _, err := cmd.StdinPipe(); err != nil { // ends with the test
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := bufio.NewScanner(out)
	if !s.Scan() {
		t.Fatal("the other process says nothing")
	}
	return cmd, s.Text()
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// The next Make removes what a killed process left, with its files, and never what belongs to
// a process that lives, to another prefix, or to a file that is no folder.
func TestNextRunCleansUp(t *testing.T) {
	parent := t.TempDir()
	_, living := other(t, parent)
	dead, left := other(t, parent)
	if err := os.WriteFile(filepath.Join(left, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(parent, "other-1")
	target := filepath.Join(t.TempDir(), "target")
	for _, dir := range []string{elsewhere, target} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(parent, "work-link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	Sweep(parent, "work-")
	if !exists(left) || !exists(living) {
		t.Fatal("a folder of a living process is gone")
	}
	_ = dead.Process.Kill()
	_ = dead.Wait()
	f, err := Make(parent, "work-")
	if err != nil {
		t.Fatal(err)
	}
	if exists(left) {
		t.Error("what the killed process left is still there")
	}
	for _, path := range []string{living, f.Path(), elsewhere, link, target} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for range 2 {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if exists(f.Path()) {
		t.Error("the folder is there after Remove")
	}
}

// Many processes that make and sweep at once all get a folder, which nobody takes away from them.
func TestMakersAndSweepers(t *testing.T) {
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				f, err := Make(parent, "work-")
				if err != nil {
					t.Error(err)
					return
				}
				if !exists(f.Path()) {
					t.Error("a new folder is gone")
				}
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
