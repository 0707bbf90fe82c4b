package tests

// This file tests funid and its users in containers, as the manifests that funid prints make them:
// two nodes of a cluster are hosts of a lab with a router between them.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// manifests are what `funid kubernetes` prints, as far as this test acts on it.
type manifests struct {
	config map[string]string // the ConfigMap
	pod    struct {
		HostNetwork bool `yaml:"hostNetwork"`
		Containers  []struct {
			Command, Args   []string
			SecurityContext struct {
				RunAsUser    int                          `yaml:"runAsUser"`
				Capabilities struct{ Drop, Add []string } `yaml:"capabilities"`
			} `yaml:"securityContext"`
			ReadinessProbe struct {
				Exec struct{ Command []string } `yaml:"exec"`
			} `yaml:"readinessProbe"`
			VolumeMounts []struct {
				Name      string
				MountPath string `yaml:"mountPath"`
				ReadOnly  bool   `yaml:"readOnly"`
			} `yaml:"volumeMounts"`
		}
		Volumes []struct {
			Name      string
			ConfigMap *struct{ Name string } `yaml:"configMap"`
			HostPath  *struct{ Path string } `yaml:"hostPath"`
		}
	}
}

func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	funid := filepath.Join(filepath.Dir(command), "funid")
	d := yaml.NewDecoder(strings.NewReader(start(t, exec.Command(funid, "kubernetes"), nil).ok()))
	for {
		var doc struct {
			Kind string
			Data map[string]string
			Spec struct{ Template struct{ Spec yaml.MapSlice } }
		}
		err := d.Decode(&doc)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch doc.Kind {
		case "ConfigMap":
			m.config = doc.Data
		case "DaemonSet":
			text, err := yaml.Marshal(doc.Spec.Template.Spec)
			if err == nil {
				err = yaml.Unmarshal(text, &m.pod)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(m.pod.Containers) != 1 || m.config["funid.yaml"] == "" {
		t.Fatalf("the manifests are %+v", m)
	}
	return m
}

// configMap is a folder that the kubelet fills: files are links into ..data, which is a link to a
// folder that each change makes anew, so that all files change at once (AtomicWriter of Kubernetes'
// pkg/volume/util).
type configMap struct {
	t      *testing.T
	folder string
	change int
}

func newConfigMap(t *testing.T, data map[string]string) *configMap {
	t.Helper()
	c := &configMap{t: t, folder: filepath.Dir(file(t, ""))}
	if err := os.Remove(filepath.Join(c.folder, "peers.yaml")); err != nil {
		t.Fatal(err)
	}
	c.write(data)
	for name := range data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(c.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *configMap) write(data map[string]string) {
	c.t.Helper()
	c.change++
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	now, link, next := fmt.Sprintf("..2026_%d", c.change), filepath.Join(c.folder, "..data"),
		filepath.Join(c.folder, "..data_tmp")
	must(os.Mkdir(filepath.Join(c.folder, now), 0o755))
	for name, text := range data {
		must(os.WriteFile(filepath.Join(c.folder, now, name), []byte(text), 0o644))
	}
	must(os.Symlink(now, next))
	must(os.Rename(next, link))
	if c.change > 1 {
		must(os.RemoveAll(filepath.Join(c.folder, fmt.Sprintf("..2026_%d", c.change-1))))
	}
}

// node is a node of the cluster: a host of a lab, the folder of the socket on it, and its funid.
type node struct {
	t      *testing.T
	lab    *lab.Lab
	host   int
	spec   containerSpec
	probe  []string
	config *configMap
	run    string // /run/funet of the host
	log    *growing
	funid  *process
}

// newNode prepares what the DaemonSet says.
func newNode(t *testing.T, l *lab.Lab, host int, m *manifests, config map[string]string) *node {
	t.Helper()
	c := m.pod.Containers[0]
	if all := c.SecurityContext.Capabilities.Drop; len(all) != 1 || all[0] != "ALL" {
		t.Fatalf("the container keeps capabilities: it drops %v", all)
	}
	n := &node{t: t, lab: l, host: host, config: newConfigMap(t, config), run: filepath.Dir(file(t, "")),
		probe: c.ReadinessProbe.Exec.Command}
	n.spec = containerSpec{Root: imageRoot(t), User: c.SecurityContext.RunAsUser, HostNetwork: m.pod.HostNetwork,
		Capabilities: capabilityNumbers(t, c.SecurityContext.Capabilities.Add), Args: append(c.Command, c.Args...)}
	for _, mount := range c.VolumeMounts {
		for _, v := range m.pod.Volumes {
			switch {
			case v.Name != mount.Name:
			case v.ConfigMap != nil:
				n.spec.Mounts = append(n.spec.Mounts, containerMount{n.config.folder, mount.MountPath, true})
			case v.HostPath != nil && v.HostPath.Path == "/run/funet":
				n.spec.Mounts = append(n.spec.Mounts, containerMount{n.run, mount.MountPath, mount.ReadOnly})
			}
		}
	}
	if len(n.spec.Mounts) != 2 {
		t.Fatalf("the mounts are %+v", n.spec.Mounts)
	}
	n.up()
	return n
}

// up starts the node's funid and waits until its readiness probe succeeds.
func (n *node) up() {
	n.t.Helper()
	cmd := containerCommand(n.t, n.spec)
	n.log = &growing{}
	cmd.Stdout = n.log
	n.funid = start(n.t, cmd, func(c *exec.Cmd) error {
		c.Stderr = n.log
		return n.lab.Start(n.host, c)
	})
	eventually(n.t, "funid is ready", func() bool {
		select {
		case <-n.funid.ended:
			n.t.Fatalf("funid has ended: %s", n.log.text.String())
		default:
		}
		return n.exec(n.probe...).Run() == nil
	})
}

// down ends it as the kubelet does.
func (n *node) down() {
	n.t.Helper()
	if err := n.funid.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if code := n.funid.wait(); code != 0 {
		n.t.Errorf("funid ended with %d: %s", code, n.log.text.String())
	}
}

// exec is a command in funid's container.
func (n *node) exec(args ...string) *exec.Cmd {
	words := n.spec.within(n.funid.cmd.Process.Pid, args...)
	return exec.Command(words[0], words[1:]...)
}

// contexts are the users of the contexts of the node's card.
func (n *node) contexts() (users []int) {
	n.t.Helper()
	out, err := n.exec("/usr/bin/funet", "status", "--json").Output()
	var status struct {
		Contexts []struct {
			UID int `json:"uid"`
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &status)
	}
	if err != nil {
		n.t.Fatalf("the status of funid: %v: %s", err, out)
	}
	for _, c := range status.Contexts {
		users = append(users, c.UID)
	}
	return users
}

// TestKubernetes: funid is in a container as its manifest says, without privilege, and pods have
// nothing but the socket. The pods' programs talk. A user without a right is refused, and root of a
// pod administrates nothing. funid follows a ConfigMap that changes. Pods find a funid that was
// started again.
func TestKubernetes(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t, "--router")
	peers := funet(t, "lab", "peers", name).ok()
	m := readManifests(t)
	data := func(peers string) map[string]string {
		return map[string]string{"peers.yaml": peers, "funid.yaml": m.config["funid.yaml"] +
			"rules: [{users: [1000, 500000], contexts: 4}]\nsubuid: /etc/funet/subuid\n",
			"subuid": "0:500000:65536\n"}
	}
	// The first node does not know the second yet.
	alone := strings.Replace(peers, `{node: 1, address: "198.18.101.2", iface: "fu0"}`, `{node: 1, absent: true}`, 1)
	if alone == peers {
		t.Fatalf("the peers file is %s", peers)
	}
	nodes := []*node{newNode(t, l, 0, &m, data(alone)), newNode(t, l, 1, &m, data(peers))}

	// Its capabilities are gone but the one that it keeps, and what pods share is locked where it
	// may raise the limit.
	if got := statusOf(nodes[0].funid.cmd.Process.Pid, "CapPrm"); got != fmt.Sprintf("%016x", 1<<9) {
		t.Errorf("funid has the capabilities %s", got)
	}
	own, err := strconv.ParseUint(statusOf(os.Getpid(), "CapPrm"), 16, 64)
	if raises := err == nil && own>>unix.CAP_SYS_RESOURCE&1 == 1; raises !=
		(nodes[0].log.count("RLIMIT_MEMLOCK") == 0) {
		t.Errorf("funid's log has %s", nodes[0].log.text.String())
	}

	// Two pods: one of the machine's users, one with users of its own.
	root := imageRoot(t)
	specs := make([]containerSpec, 2)
	script := "#!/bin/sh\npod=$1; shift\ncase $pod in\n"
	for i, n := range nodes {
		specs[i] = containerSpec{Root: root, User: 1000, Mounts: []containerMount{{n.run, "/run/funet", true}},
			Users: []int{0, 500000}[i]}
		words := specs[i].within(pod(t, specs[i]))
		script += fmt.Sprintf("pod-%d) exec env -i PATH=/usr/bin %s=\"$%s\" %s \"$@\";;\n", i, markEnv, markEnv,
			strings.Join(words, " "))
	}
	kubectl := file(t, script+"esac\necho no such pod: $pod >&2; exit 1\n")
	if err := os.Chmod(kubectl, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) *process {
		t.Helper()
		return funet(t, append([]string{"run", "-n", "2", "--hosts", "pod-0,pod-1", "--rsh", kubectl + " {}", "--"},
			args...)...)
	}

	run("funet", "pingpong").fails("host pod-0", "node 1 is on card 1, which the peers file of card 0 does not have")
	nodes[0].config.write(data(peers))
	eventually(t, "the first node knows the second", func() bool {
		return nodes[0].log.count("card 1 has joined: 198.18.101.2") == 1
	})

	out := run("funet", "pingpong", "--exchanges", "300", "--warm-up", "50").ok()
	if !strings.Contains(out, "300 exchanges, every one verified") || !strings.Contains(out, "card of a daemon") {
		t.Errorf("ping-pong printed %s", out)
	}
	if out := run("funet", "matmul", "--size", "60").ok(); !strings.Contains(out, "equal to a local Dgemm") {
		t.Errorf("matrix multiply printed %s", out)
	}

	// Who pods are to funid: the machine's user, and one that nobody else has. They have no
	// privilege.
	p := run("funet", "pingpong", "--exchanges", "1000000000")
	eventually(t, "both pods are attached", func() bool {
		return len(nodes[0].contexts())+len(nodes[1].contexts()) == 2
	})
	for i, want := range []int{1000, 501000} {
		if got := nodes[i].contexts(); len(got) != 1 || got[0] != want {
			t.Errorf("node %d has contexts of the users %v, want %d", i, got, want)
		}
	}
	seen := 0
	for _, pid := range marked(p.mark) {
		if exe, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !strings.Contains(string(exe), "1000000000") ||
			statusOf(pid, "NSpid") == fmt.Sprint(pid) {
			continue // the launcher, an agent or what executed it
		}
		seen++
		if uid, caps := statusOf(pid, "Uid"), statusOf(pid, "CapPrm"); caps != strings.Repeat("0", 16) ||
			strings.HasPrefix(uid, "0\t") {
			t.Errorf("a program of a pod has the users %s and capabilities %s", uid, caps)
		}
	}
	if seen != 2 {
		t.Errorf("%d programs of pods were looked at", seen)
	}

	// A funid that is started again, with pods attached: their job ends, and the next one runs.
	nodes[1].down()
	if code := p.wait(); code == 0 {
		t.Errorf("the job ended without an error: %s", p.stdout.String())
	}
	nodes[1].up()
	run("funet", "pingpong", "--exchanges", "100", "--warm-up", "50").ok()
	// So does one that was killed, whose socket is still there.
	if err := nodes[0].funid.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	nodes[0].funid.wait()
	nodes[0].up()
	run("funet", "pingpong", "--exchanges", "100", "--warm-up", "50").ok()

	// Without a right are another user, root of a pod, and a pod without the socket.
	refused := func(spec containerSpec, says string, args ...string) {
		t.Helper()
		spec.Args = append([]string{"/usr/bin/funet"}, args...)
		startContainer(t, spec, nil).fails(says)
	}
	stranger, pods := specs[0], []string{"run", "--", "funet", "pingpong"}
	stranger.User = 2000
	refused(stranger, "as user 2000, who may have 0 contexts", pods...)
	for _, users := range []int{0, 500000} {
		rootOfPod := specs[0]
		rootOfPod.User, rootOfPod.Users = 0, users
		refused(rootOfPod, "administrator", "gid", "list")
	}
	if out, err := nodes[0].exec("/usr/bin/funet", "gid", "list").CombinedOutput(); err != nil {
		t.Errorf("root of funid's own container does not administrate: %v: %s", err, out)
	}
	outside := specs[0]
	outside.Mounts = nil
	refused(outside, "start funid", pods...)
}
