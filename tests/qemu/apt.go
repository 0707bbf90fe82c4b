package main

// This file asks apt for packages. Lists, caches and sources are the rig's own, so the machine's
// configuration and state do not change. apt checks signatures as always, with the distribution's
// own keys.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// keyring is the file with the distribution's keys.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// guestReleases are the releases that kernels come from, in addition to the machine's own.
var guestReleases = []string{"bookworm", "trixie", "trixie-backports"}

// apt is the rig's own view of the distribution's packages.
type apt struct {
	dir    string // lists and configuration
	keeper *keeper
	base   string
	host   []string // releases whose programs run on this machine
}

// aptConfiguration is the rig's own configuration, which apt reads after the machine's
// (apt.conf(5)). It clears what would run after an update, and what would download more than
// package lists.
const aptConfiguration = `#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;
#clear Acquire::IndexTargets::deb::DEP-11-icons-large;
#clear Acquire::IndexTargets::deb::DEP-11-icons-large-hidpi;
#clear Acquire::IndexTargets::deb::CNF;
#clear APT::Default-Release;
Acquire::Languages "none";
Acquire::Retries "3";
APT::Get::List-Cleanup "false";
APT::Sandbox::User "";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::State "%[1]s/state";
Dir::State::Lists "%[1]s/lists";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
`

// openApt finds out where the machine's packages come from, and writes the rig's configuration.
func openApt(ctx context.Context, dir string, k *keeper) (*apt, error) {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %s is missing; make qemu fetches kernels and QEMU with apt, on Debian 12 or 13",
				errPackages, program)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return nil, fmt.Errorf("%w: %w; make qemu needs Debian 12 or 13 (package debian-archive-keyring)",
			errPackages, err)
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return nil, err
	}
	codename := field(string(release), "VERSION_CODENAME")
	a := &apt{dir: dir, keeper: k, host: []string{codename, codename + "-backports"}}
	printed, err := a.output(ctx, "apt-get", "update", "--print-uris")
	if err != nil {
		return nil, err
	}
	if a.base, err = baseURL(printed, codename); err != nil {
		return nil, err
	}
	return a, a.configure()
}

// path returns the path of a file of the configuration.
func (a *apt) path(name string) string { return filepath.Join(a.dir, name) }

// configure writes the configuration and the lists of sources.
func (a *apt) configure() error {
	for _, dir := range []string{"lists/partial", "state", "cache/archives/partial"} {
		if err := os.MkdirAll(a.path(dir), 0o755); err != nil {
			return err
		}
	}
	status, err := os.ReadFile("/var/lib/dpkg/status")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(a.path("apt.conf"), fmt.Appendf(nil, aptConfiguration, a.dir), 0o644),
		a.sources("all.list", slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.host, guestReleases))))),
		a.sources("host.list", a.host),
		// What is installed need not be fetched, but for what runs from the cache.
		os.WriteFile(a.path("status"), []byte(without(string(status), "qemu", "seabios", "ipxe")), 0o644),
		os.WriteFile(a.path("empty"), nil, 0o644))
}

// sources writes a list of sources with the given releases.
func (a *apt) sources(name string, releases []string) error {
	var b strings.Builder
	for _, r := range releases {
		fmt.Fprintf(&b, "deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, a.base, r)
	}
	return os.WriteFile(a.path(name), []byte(b.String()), 0o644)
}

// all and hosts return options that choose the releases. bare returns options of a plan that is
// complete, as if nothing were installed: its packages go into guests.
func (a *apt) all() []string   { return a.options("all.list", "status") }
func (a *apt) hosts() []string { return a.options("host.list", "status") }
func (a *apt) bare() []string  { return a.options("host.list", "empty") }

func (a *apt) options(list, status string) []string {
	return []string{"-c", a.path("apt.conf"), "-o", "Dir::Etc::SourceList=" + a.path(list), "-o",
		"Dir::State::status=" + a.path(status)}
}

// update fetches the package lists.
func (a *apt) update(ctx context.Context) error {
	_, err := a.output(ctx, "apt-get", append(a.all(), "-qq", "update", "--error-on=any")...)
	return err
}

// kernels returns the kernels of the distribution.
func (a *apt) kernels(ctx context.Context) ([]kernelPackage, error) {
	text, err := a.output(ctx, "apt-cache", append(a.all(), "show", "linux-image-amd64")...)
	return kernels(text), err
}

// fetchKernel downloads the packages of a kernel into a folder.
func (a *apt) fetchKernel(ctx context.Context, k kernelPackage, into string) error {
	text, err := a.output(ctx, "apt-cache", append(a.all(), "show", imagePrefix+k.Release)...)
	if err != nil {
		return err
	}
	return a.download(ctx, a.all(), into, parcels(text, k)...)
}

// download fetches packages, NAME or NAME=VERSION, into a folder.
func (a *apt) download(ctx context.Context, options []string, into string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", slices.Concat(options, []string{"-qq", "download"}, packages)...)
	cmd.Dir = into
	_, err := a.run(cmd)
	return err
}

// install returns the arguments of an installation, which is only planned or downloaded.
func (a *apt) install(options []string, packages []string) []string {
	return slices.Concat(options, []string{"-qq", "-y", "--no-install-recommends", "-t", a.host[1], "install"},
		packages)
}

// plan returns the files of the packages and of all that they need, without what is installed.
func (a *apt) plan(ctx context.Context, options []string, packages ...string) ([]planned, error) {
	printed, err := a.output(ctx, "apt-get", a.install(append(options, "--print-uris"), packages)...)
	return plan(printed), err
}

// fetch downloads the files that plan returns into a folder.
func (a *apt) fetch(ctx context.Context, options []string, into string, packages ...string) error {
	if err := os.MkdirAll(filepath.Join(into, "partial"), 0o755); err != nil {
		return err
	}
	_, err := a.output(ctx, "apt-get", a.install(append(options, "--download-only", "-o", "Dir::Cache::Archives="+into),
		packages)...)
	return err
}

func (a *apt) output(ctx context.Context, name string, args ...string) (string, error) {
	return a.run(exec.CommandContext(ctx, name, args...))
}

// run runs a program, which ends with the rig, and returns its output.
func (a *apt) run(cmd *exec.Cmd) (string, error) {
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if err := a.keeper.start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		return "", fmt.Errorf("%w: %s %s: %w: %s", errPackages, filepath.Base(cmd.Path), what(cmd.Args), err,
			strings.Join(lines[max(0, len(lines)-3):], "; "))
	}
	return out.String(), nil
}

// what returns the command among apt's arguments.
func what(args []string) string {
	for _, word := range []string{"update", "show", "download", "install"} {
		if slices.Contains(args, word) {
			return word
		}
	}
	return ""
}
