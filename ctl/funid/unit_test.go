package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/unit"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/tests/help"
)

// TestUnit: systemd can read the unit. The unit starts the program with the configuration, as a
// user of its own, and makes the folder of the socket. The program has the capabilities that the
// daemon needs, one that it keeps, and no others. (`make systemd` tries the unit under systemd.)
func TestUnit(t *testing.T) {
	text, err := unitFor("/opt/funet/funid", "/srv/funid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	options, err := systemd.DeserializeOptions(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]string{}
	for _, o := range options {
		if o.Section == "Service" {
			if _, twice := service[o.Name]; twice {
				t.Errorf("%s is there twice", o.Name)
			}
			service[o.Name] = o.Value
		}
	}
	for name, want := range map[string]string{
		"Type":                    "notify",
		"ExecStart":               "/opt/funet/funid --config /srv/funid.yaml",
		"User":                    "funet",
		"DynamicUser":             "yes",
		"RuntimeDirectory":        filepath.Base(filepath.Dir(daemon.DefaultSocket)),
		"NoNewPrivileges":         "yes",
		"ProtectSystem":           "strict",
		"MemoryDenyWriteExecute":  "yes",
		"RestrictAddressFamilies": "AF_XDP AF_NETLINK AF_UNIX AF_INET AF_INET6",
		"CapabilityBoundingSet":   service["AmbientCapabilities"],
	} {
		if service[name] != want {
			t.Errorf("%s=%s, want %s", name, service[name], want)
		}
	}
	want := append(daemon.Capabilities(), "CAP_LINUX_IMMUTABLE")
	got := strings.Fields(service["AmbientCapabilities"])
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("capabilities %v, want %v", got, want)
	}
	for _, bad := range []string{"funid", "/opt/my funid", "/opt/%n", "/opt/$x", "/opt/\\x"} {
		if _, err := unitFor(bad, unitConfig); err == nil {
			t.Errorf("program %q is taken", bad)
		}
		if _, err := unitFor(unitProgram, bad); err == nil {
			t.Errorf("configuration %q is taken", bad)
		}
	}
}

// Help has no names of arguments that are none.
func TestHelp(t *testing.T) {
	for _, odd := range help.Odd(command()) {
		t.Error(odd)
	}
}

// Rule (funid-ports.service, ctl/daemon MakePorts): the unit of ports starts the helper where
// funid's configuration looks for it, as funid's user, with what the helper keeps and, for its
// namespace, CAP_SYS_ADMIN.
func TestPortsUnit(t *testing.T) {
	c := unitCommand()
	var out strings.Builder
	c.SetOut(&out)
	c.SetArgs([]string{"--ports", "--program", "/opt/funet/funid"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	options, err := systemd.DeserializeOptions(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]string{}
	for _, o := range options {
		if o.Section == "Service" {
			service[o.Name] = o.Value
		}
	}
	for name, want := range map[string]string{
		"ExecStart":             "/opt/funet/funid " + portsCommand + " --stay /run/funet-ports/socket",
		"User":                  "funet",
		"RuntimeDirectory":      "funet-ports",
		"RestrictNamespaces":    "net",
		"NotifyAccess":          "main", // of what it keeps (package ports, store.go)
		"Restart":               "always",
		"CapabilityBoundingSet": service["AmbientCapabilities"],
	} {
		if service[name] != want {
			t.Errorf("%s=%s, want %s", name, service[name], want)
		}
	}
	want := append(daemon.Capabilities(), "CAP_LINUX_IMMUTABLE", "CAP_IPC_LOCK", "CAP_SYS_ADMIN")
	got := strings.Fields(service["AmbientCapabilities"])
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("capabilities %v, want %v", got, want)
	}
}
