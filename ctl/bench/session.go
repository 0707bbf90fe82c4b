package bench

// This file is a session: what the measurements on a lab share.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/ctl/scratch"
)

// session is a lab, and the state of the measurements on it.
type session struct {
	lab    *lab.Lab
	hosts  []lab.Host
	mtu    int             // of the lab
	exe    []string        // this program, with the arguments that lead to runRole
	dir    string          // the path of folder
	folder *scratch.Folder // for temporary files; nil: there are none
	port   int             // the last one taken
	modes  rawxdp.Modes    // asked for by raw_afxdp's ends
	got    rawxdp.Modes    // the modes that raw_afxdp got last
	frame  int             // bytes of raw_afxdp's frames
	// exchanges is the number of round trips of each peer.
	exchanges int
}

func newSession(l *lab.Lab) (*session, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's binary: %w", err)
	}
	return &session{lab: l, hosts: l.Hosts(), mtu: l.Options().MTU, exe: append([]string{exe}, roleArgs...), port: 20_000,
		frame: rawxdp.DefaultFrameSize}, nil
}

// fill makes the folder for temporary files, and removes those left by killed benchmarks.
func (s *session) fill() error {
	// Absolute, because mpirun changes directories.
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return fmt.Errorf("find the directory for temporary files: %w", err)
	}
	if s.folder, err = scratch.Make(temp, "funet-bench-"); err == nil {
		s.dir = s.folder.Path()
	}
	return err
}

// end removes the folder.
func (s *session) end() {
	if s.folder != nil {
		s.folder.Remove()
	}
}

// address returns host's address in the lab.
func (s *session) address(host int) string { return s.hosts[host].Interfaces[0].Addr.Addr().String() }

// newPort returns a port that no earlier run used, below the ephemeral ones. The kernel keeps a TCP
// connection's port for a minute after its end.
func (s *session) newPort() int {
	if s.port++; s.port >= 32_000 {
		s.port = 20_001
	}
	return s.port
}

// tool is a program that a peer needs, and the Debian package that contains it.
type tool struct{ name, pkg string }

// missing returns the tools that are not in PATH, and their packages.
func missing(tools []tool) (names, pkgs []string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t.name); err != nil {
			names = append(names, t.name)
			if !slices.Contains(pkgs, t.pkg) {
				pkgs = append(pkgs, t.pkg)
			}
		}
	}
	return names, pkgs
}

// absent says which tools are missing and how to get them; "" when all are there.
func absent(tools []tool) string {
	names, pkgs := missing(tools)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not found: %s; install %s", strings.Join(names, ", "), strings.Join(pkgs, " "))
}
