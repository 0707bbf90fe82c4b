package main

// This file has output of apt, as it was seen, and what must be read from it.

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const shownKernels = `Package: linux-image-amd64
Source: linux-signed-amd64 (7.3.4+1~bpo13+1)
Version: 7.3.4-1~bpo13+1
Depends: linux-base-amd64 (= 7.3.4-1~bpo13+1), linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-modules-amd64 (= 7.3.4-1~bpo13+1)
Description: Linux for 64-bit PCs (meta-package)
 This package depends on the latest Linux kernel and modules for use on PCs.
 .
 Depends: linux-image-9.9.9-amd64

Package: linux-image-amd64
Version: 6.12.107-1
Depends: linux-image-6.12.107+deb13-amd64 (= 6.12.107-1)

Package: linux-image-amd64
Version: 6.12.95-1~bpo12+1
Depends: linux-image-6.12.95+deb12-amd64 (= 6.12.95-1~bpo12+1)

Package: linux-image-amd64
Version: 6.1.176-1
Depends: linux-image-6.1.0-50-amd64 (= 6.1.176-1)
`

// The newest kernel is that with the highest number, not the last one of a text's order; a
// beginning of a version is a beginning of its numbers.
func TestChooseKernel(t *testing.T) {
	all := kernels(shownKernels)
	if len(all) != 4 {
		t.Fatalf("%d kernels: %v", len(all), all)
	}
	for name, want := range map[string]string{
		newest: "7.3.4+deb13-amd64", "7.3": "7.3.4+deb13-amd64", "6.12": "6.12.107+deb13-amd64",
		"6.12.95": "6.12.95+deb12-amd64", "6": "6.12.107+deb13-amd64", "6.1": "6.1.0-50-amd64",
	} {
		k, err := choose(all, name)
		if err != nil || k.Release != want {
			t.Errorf("%s: %s, %v; want %s", name, k.Release, err, want)
		}
	}
	for _, name := range []string{"5.10", "6.2", "x"} {
		if _, err := choose(all, name); !errors.Is(err, errPackages) ||
			!strings.Contains(err.Error(), "6.12.107+deb13-amd64") {
			t.Errorf("%s: %v does not say what there is", name, err)
		}
	}
	// The same version in two releases: the one that was not made for an older release.
	two := []kernelPackage{{"6.12.9+deb13-amd64", "6.12.9-1"}, {"6.12.9+deb12-amd64", "6.12.9-1~bpo12+1"}}
	for range 2 {
		if k, err := choose(two, newest); err != nil || k.Release != "6.12.9+deb13-amd64" {
			t.Errorf("%v, %v", k, err)
		}
		two[0], two[1] = two[1], two[0]
	}
}

// A kernel that is split comes in its parts, and an undivided one whole, each in the version that
// was chosen.
func TestParcels(t *testing.T) {
	split := `Package: linux-image-7.3.4+deb13-amd64
Version: 7.3.4-1~bpo13+1
Depends: dracut | initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool, linux-base-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-binary-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)
`
	k := kernelPackage{"7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"}
	want := []string{"linux-base-7.3.4+deb13-amd64=7.3.4-1~bpo13+1", "linux-binary-7.3.4+deb13-amd64=7.3.4-1~bpo13+1",
		"linux-modules-7.3.4+deb13-amd64=7.3.4-1~bpo13+1"}
	if d := cmp.Diff(want, parcels(split, k)); d != "" {
		t.Error(d)
	}
	whole :=
		"Package: linux-image-6.12.107+deb13-amd64\nVersion: 6.12.107-1\nDepends: kmod, initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool\n"
	if d := cmp.Diff([]string{"linux-image-6.12.107+deb13-amd64=6.12.107-1"},
		parcels(whole, kernelPackage{"6.12.107+deb13-amd64", "6.12.107-1"})); d != "" {
		t.Error(d)
	}
}

// The machine's own apt says where packages come from, with the other release in the place of its
// own; another distribution, and a release that only has updates, are refused.
func TestBaseURL(t *testing.T) {
	printed := `'http://mirror.example/debian/dists/bookworm-updates/InRelease' mirror.example_debian_dists_bookworm-updates_InRelease 0 
'http://mirror.example/security/dists/bookworm-security/InRelease' x 0 
'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0 
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' y 0 
`
	if base, err := baseURL(printed, "bookworm"); err != nil || base != "http://mirror.example/debian" {
		t.Errorf("%s, %v", base, err)
	}
	for _, codename := range []string{"noble", "trixie", ""} {
		if _, err := baseURL(printed, codename); !errors.Is(err, errPackages) {
			t.Errorf("%q: %v", codename, err)
		}
	}
}

// What an installation would fetch is read with names, sizes and versions; lines of another form
// are not taken for files.
func TestPlan(t *testing.T) {
	printed := `Reading package lists...
'http://mirror.example/pool/main/q/qemu/qemu-system-x86_10.0.2%2bds-2.deb' qemu-system-x86_1%3a10.0.2+ds-2+deb13u1~bpo12+1_amd64.deb 10176912 SHA256:00
'http://mirror.example/pool/main/liba/libaio/libaio1.deb' libaio1_0.3.113-4_amd64.deb 13360
`
	got := plan(printed)
	want := []planned{{"qemu-system-x86_1%3a10.0.2+ds-2+deb13u1~bpo12+1_amd64.deb", 10176912},
		{"libaio1_0.3.113-4_amd64.deb", 13360}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(planned{})); d != "" {
		t.Fatal(d)
	}
	for i, v := range []string{"10.0.2+ds-2+deb13u1~bpo12+1", "0.3.113-4"} {
		if _, version := got[i].split(); version != v {
			t.Errorf("%s: version %s", got[i].name, version)
		}
	}
}

// What runs from the cache is left out of the list of what is installed, and nothing else.
func TestWithout(t *testing.T) {
	status :=
		"Package: qemu-system-x86\nStatus: install ok installed\nDescription: x\n Package: y\n\nPackage: libc6\nVersion: 2\n\nPackage: seabios\nVersion: 1\n"
	if got := without(status, "qemu", "seabios"); got != "Package: libc6\nVersion: 2\n\n" {
		t.Errorf("%q", got)
	}
}

// A value of os-release(5) may be quoted.
func TestField(t *testing.T) {
	for _, text := range []string{"ID=debian\nVERSION_CODENAME=trixie\n", "VERSION_CODENAME=\"trixie\"\n",
		"VERSION_CODENAME='trixie'"} {
		if got := field(text, "VERSION_CODENAME"); got != "trixie" {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := field("X_VERSION_CODENAME=a\n", "VERSION_CODENAME"); got != "" {
		t.Errorf("%q", got)
	}
}
