package main

// This file parses the output of apt: where the distribution's packages are, which kernels there
// are, and which files an installation would fetch.

import (
	"bufio"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errPackages is wrapped by errors about packages that cannot be had.
var errPackages = errors.New("the distribution's packages")

// newest names the kernel with the highest version.
const newest = "newest"

// kernelPackage is a kernel that the distribution has.
type kernelPackage struct {
	Release string `json:"release"` // as uname -r prints it, such as 6.12.107+deb13-amd64
	Version string `json:"version"` // of the package
}

// imagePrefix is how the name of a kernel's main package begins. That package has the kernel
// itself, or depends on the packages with its parts.
const imagePrefix = "linux-image-"

// parts are how the names of the packages with a kernel's parts begin.
var parts = []string{"linux-base-", "linux-binary-", "linux-modules-"}

var inRelease = regexp.MustCompile(`(?m)^'(\S+)/dists/([a-z]+)/InRelease' `)

// baseURL returns the address of the distribution's release. It finds it in the output of `apt-get
// update --print-uris`, which follows the machine's configuration in any form.
func baseURL(printed, codename string) (string, error) {
	for _, m := range inRelease.FindAllStringSubmatch(printed, -1) {
		if m[2] == codename {
			return m[1], nil
		}
	}
	return "",
		fmt.Errorf("%w: apt on this machine has no source of the release %q; make qemu needs Debian 12 or 13 with its own sources", errPackages, codename)
}

// field returns a variable of os-release(5).
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// paragraph is a paragraph of a package list: its fields by name (deb-control(5)). Continuation
// lines are joined.
type paragraph map[string]string

// paragraphs parses a package list.
func paragraphs(text string) (all []paragraph) {
	p, last := paragraph{}, ""
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20) // a line of dependencies may be long
	for s.Scan() {
		line := s.Text()
		name, value, ok := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			if len(p) > 0 {
				all = append(all, p)
			}
			p, last = paragraph{}, ""
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				p[last] += " " + strings.TrimSpace(line)
			}
		case ok:
			last = name
			p[last] = strings.TrimSpace(value)
		}
	}
	if len(p) > 0 {
		all = append(all, p)
	}
	return all
}

// dependencies returns the names of the packages in a Depends field. Of alternatives it returns the
// first.
func dependencies(depends string) (names []string) {
	for d := range strings.SplitSeq(depends, ",") {
		if f := strings.Fields(d); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return names
}

// kernels returns the kernels in the output of `apt-cache show` for the package that depends on the
// kernel.
func kernels(text string) (all []kernelPackage) {
	for _, p := range paragraphs(text) {
		for _, d := range dependencies(p["Depends"]) {
			release, ok := strings.CutPrefix(d, imagePrefix)
			if k := (kernelPackage{release, p["Version"]}); ok && k.Version != "" && !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

// choose returns the kernel with the given name: "newest", or the beginning of a version such as
// 6.12. Of several kernels it returns the newest.
func choose(all []kernelPackage, name string) (best kernelPackage, err error) {
	for _, k := range all {
		if name != newest && !begins(numbers(k.Version), numbers(name)) {
			continue
		}
		// Of two packages of a version that of the release is taken, not the one made for an older.
		c := slices.Compare(numbers(k.Version), numbers(best.Version))
		if best.Release == "" || c > 0 || c == 0 && !strings.Contains(k.Version, "~bpo") {
			best = k
		}
	}
	if best.Release == "" {
		var have []string
		for _, k := range all {
			have = append(have, k.Release)
		}
		return best, fmt.Errorf("%w: no kernel %s; there are: %s", errPackages, name, strings.Join(have, ", "))
	}
	return best, nil
}

// numbers returns the numbers in the upstream part of a version.
func numbers(version string) (n []int) {
	if _, rest, ok := strings.Cut(version, ":"); ok {
		version = rest
	}
	version, _, _ = strings.Cut(version, "-")
	for part := range strings.SplitSeq(version, ".") {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		v, err := strconv.Atoi(part)
		if err != nil {
			return n
		}
		n = append(n, v)
	}
	return n
}

// begins reports whether a version begins with the numbers of another.
func begins(version, with []int) bool {
	return len(with) > 0 && len(version) >= len(with) && slices.Equal(version[:len(with)], with)
}

// parcels returns the packages with a kernel's parts, as NAME=VERSION. text is the output of
// `apt-cache show` for its image package. Unless the kernel is split, that is its only package.
func parcels(text string, k kernelPackage) []string {
	spec := func(name string) string { return name + "=" + k.Version }
	for _, p := range paragraphs(text) {
		if p["Version"] != k.Version {
			continue
		}
		var split []string
		for _, d := range dependencies(p["Depends"]) {
			if slices.ContainsFunc(parts, func(prefix string) bool { return d == prefix+k.Release }) {
				split = append(split, spec(d))
			}
		}
		if len(split) > 0 {
			return split
		}
	}
	return []string{spec(imagePrefix + k.Release)}
}

// planned is a file that an installation would fetch.
type planned struct {
	name  string // of the file
	bytes int64
}

// split returns the package's name and its version without epoch. The file's name is
// NAME_VERSION_ARCH.deb, with %3a for a colon.
func (p planned) split() (name, version string) {
	name, rest, _ := strings.Cut(filepath.Base(p.name), "_")
	version, _, _ = strings.Cut(rest, "_")
	if _, after, ok := strings.Cut(version, "%3a"); ok {
		version = after
	}
	return name, version
}

// plan parses the output of `apt-get --print-uris install`: lines of 'URI' FILE BYTES HASH.
func plan(printed string) (all []planned) {
	for line := range strings.Lines(printed) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[0], "'") {
			continue
		}
		if n, err := strconv.ParseInt(f[2], 10, 64); err == nil {
			all = append(all, planned{f[1], n})
		}
	}
	return all
}

// without removes the paragraphs of packages whose names begin with one of the prefixes from a
// package list.
func without(status string, prefixes ...string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(status, "\n\n") {
		name := ""
		for line := range strings.Lines(p) {
			if n, ok := strings.CutPrefix(line, "Package:"); ok {
				name = strings.TrimSpace(n)
			}
		}
		if name == "" || slices.ContainsFunc(prefixes, func(x string) bool { return strings.HasPrefix(name, x) }) {
			continue
		}
		b.WriteString(strings.Trim(p, "\n") + "\n\n")
	}
	return b.String()
}
