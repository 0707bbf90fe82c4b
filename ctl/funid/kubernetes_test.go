package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/unit"
	"github.com/goccy/go-yaml"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/cluster"
)

// daemonSet has the fields of the manifest that a test reads.
type daemonSet struct {
	HostNetwork                   bool `yaml:"hostNetwork"`
	HostPID                       bool `yaml:"hostPID"`
	TerminationGracePeriodSeconds int  `yaml:"terminationGracePeriodSeconds"`
	Containers                    []struct {
		Image           string
		Command, Args   []string
		SecurityContext struct {
			Privileged             *bool
			Escalation             *bool                        `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem *bool                        `yaml:"readOnlyRootFilesystem"`
			Capabilities           struct{ Drop, Add []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
		Ready        struct{ Exec struct{ Command []string } } `yaml:"readinessProbe"`
		Lives        struct{ Exec struct{ Command []string } } `yaml:"livenessProbe"`
		VolumeMounts []struct {
			MountPath string `yaml:"mountPath"`
			SubPath   string `yaml:"subPath"`
			Name      string
		} `yaml:"volumeMounts"`
	}
}

// documents decodes all of a YAML stream.
func documents(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text), yaml.Strict())
	for {
		var v map[string]any
		if err := d.Decode(&v); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
}

// convert reads a part of a document into what a test needs of it.
func convert(t *testing.T, from, to any) {
	t.Helper()
	text, err := yaml.Marshal(from)
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Rule: the manifests say what the unit says: the same capabilities, the same places, the same time
// for a stop. One capability more stands for a limit that Kubernetes has no setting for. The
// configuration is one that funid takes. The paths of the programs are those in the image.
func TestKubernetesIsTheUnit(t *testing.T) {
	text, err := manifestsFor("registry.example/funet:1.0")
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, text)
	if len(all) != 3 || all[0]["kind"] != "Namespace" || all[1]["kind"] != "ConfigMap" ||
		all[2]["kind"] != "DaemonSet" {
		t.Fatalf("the manifests are %v", all)
	}
	var files struct{ Data map[string]string }
	var set struct {
		Spec struct{ Template struct{ Spec daemonSet } }
	}
	convert(t, all[1], &files)
	convert(t, all[2], &set)
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]

	options, err := systemd.DeserializeOptions(strings.NewReader(unit))
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]string{}
	for _, o := range options {
		service[o.Name] = o.Value
	}
	var capabilities []string
	for _, name := range strings.Fields(service["AmbientCapabilities"]) {
		capabilities = append(capabilities, strings.TrimPrefix(name, "CAP_"))
	}
	if service["LimitMEMLOCK"] != "infinity" {
		t.Error("the unit has a limit of locked memory; SYS_RESOURCE stands for none")
	}
	capabilities = append(capabilities, "SYS_RESOURCE")
	if got := c.SecurityContext.Capabilities; !slices.Equal(got.Add, capabilities) ||
		!slices.Equal(got.Drop, []string{"ALL"}) {
		t.Errorf("capabilities %v, want %v", got, capabilities)
	}
	yes, no := true, false
	for name, is := range map[string][2]*bool{
		"privileged":               {c.SecurityContext.Privileged, &no},
		"allowPrivilegeEscalation": {c.SecurityContext.Escalation, &no},
		"readOnlyRootFilesystem":   {c.SecurityContext.ReadOnlyRootFilesystem, &yes},
	} {
		if is[0] == nil || *is[0] != *is[1] {
			t.Errorf("%s is not %v", name, *is[1])
		}
	}
	if !pod.HostNetwork || pod.HostPID || service["TimeoutStopSec"] != "75s" ||
		pod.TerminationGracePeriodSeconds != 75 {
		t.Errorf("the pod is %+v", pod)
	}
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = m.SubPath == ""
	}
	for _, folder := range []string{filepath.Dir(unitConfig), filepath.Dir(daemon.DefaultSocket)} {
		if !mounts[folder] {
			t.Errorf("%s is no folder of a volume: %v", folder, mounts)
		}
	}
	if c.Image != "registry.example/funet:1.0" || !slices.Equal(c.Args, []string{"--config", unitConfig}) {
		t.Errorf("image %s, arguments %v", c.Image, c.Args)
	}

	// As the kubelet writes it; a stranger's addresses are none of this host's.
	dir := t.TempDir()
	for name, text := range files.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, filepath.Base(unitConfig)))
	if err != nil || cfg.Peers.Encap != cluster.UDP && (cfg.Encap == nil || *cfg.Encap != cluster.UDP) ||
		!cfg.FindCard {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
	cfg.FindCard, cfg.Interfaces = false, []string{"eth0"}
	if err := (daemon.Config{File: cfg}).Check(); err != nil {
		t.Error(err)
	}

	recipe, err := os.ReadFile("../image/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	var entry, arguments []string
	for line := range strings.Lines(string(recipe)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &entry)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &arguments)
		case "COPY":
			words := strings.Fields(rest)
			for _, from := range words[:len(words)-1] {
				if strings.HasPrefix(from, "-") || from == "/programs" || from == "bin/image" {
					break // another stage's, or made by make
				}
				if _, err := os.Stat(filepath.Join("../..", from)); err != nil {
					t.Errorf("%s: %v", strings.TrimSpace(line), err)
				}
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if !slices.Equal(entry, c.Command) || !slices.Equal(arguments, c.Args) ||
		!strings.HasSuffix(string(recipe), "\nFROM image AS inside\nCOPY --from=programs /programs /usr/bin\n") {
		t.Errorf("the image starts %v %v, and the manifest %v %v", entry, arguments, c.Command, c.Args)
	}
	for _, probe := range [][]string{c.Ready.Exec.Command, c.Lives.Exec.Command} {
		if !slices.Equal(probe, []string{"/usr/bin/funet", "status"}) {
			t.Errorf("a probe is %v", probe)
		}
	}

	for _, bad := range []string{"", "a b", "a\nb", "{a: b}", "a#b"} {
		if _, err := manifestsFor(bad); err == nil {
			t.Errorf("image %q is taken", bad)
		}
	}
}

// Rule: commands on the page come out line by line in the manual, as they do in a terminal.
func TestManualKeepsLines(t *testing.T) {
	dir := t.TempDir()
	c := command()
	c.SetArgs([]string{"man", dir})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man8/funid-kubernetes.8"))
	if err != nil || !strings.Contains(string(page),
		"\n.EX\n  kubectl label node NODE funet=true\n  funid kubernetes --image") {
		t.Errorf("%v: %s", err, page)
	}
}
