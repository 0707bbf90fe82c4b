package program

// This file runs a program on a lab: one process for each node, in the host's namespace. All are
// ended when one fails.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
)

// LabOptions returns the lab that the flags ask for.
func (f *Flags) LabOptions() lab.Options {
	return lab.Options{Hosts: f.Lab, Topology: lab.Topology(f.Topology), IPv6: f.ipv6, Hashed: f.hashed, MTU: f.MTU,
		Steer: f.Steer, Queues: f.queues}
}

// MeasureMode replaces --xdp auto by the faster mode on the lab.
func (f *Flags) MeasureMode(ctx context.Context, l *lab.Lab) error {
	// which frames that measure do not cross
	if t := l.Options().Topology; f.Mode != "auto" || t == lab.Router || t.IsHub() {
		return nil
	}
	best, _, err := rawxdp.Fastest(ctx, l, f.Jumbo)
	if err != nil {
		return fmt.Errorf("measuring the XDP modes: %w", err)
	}
	f.Mode = best.Attach.String()
	if f.Bind == "auto" {
		f.Bind = best.Bind.String()
	}
	return nil
}

// onLab runs `funet program args` as every node of a lab made for this run. It returns the decoded
// output of the nodes.
func onLab[R any](ctx context.Context, f *Flags, program string, args []string) (_ []R, err error) {
	g, counted, err := output.NewGauge()
	if err != nil {
		return nil, err
	}
	f.counted = counted
	defer counted.Close()
	told := output.Watch(os.Stderr, program, g)
	defer told.End()
	l, err := lab.Up(f.LabOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := f.MeasureMode(ctx, l); err != nil {
		return nil, err
	}
	return RunNodes[R](ctx, f, l, program, args)
}

// hosts returns the hosts of the lab that have nodes, in the order of those.
func (f *Flags) hosts(l *lab.Lab) (hosts []lab.Host) {
	all := l.Hosts()
	if f.Hosts == nil {
		return all
	}
	for _, i := range f.Hosts {
		hosts = append(hosts, all[i])
	}
	return hosts
}

// RunNodes runs the program on all hosts of the lab, on f.Hosts, or with f.Alone on host 0. It
// decodes the JSON document of each node. With --card direct the processes are an ordinary user's
// and use direct ports.
func RunNodes[R any](ctx context.Context, f *Flags, l *lab.Lab, program string, args []string) ([]R, error) {
	if f.card == cardDirect {
		return RunDirect[R](ctx, f, l, len(l.Hosts()), len(l.Hosts()), program, args)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hosts := f.hosts(l)
	nodes := hosts
	if f.Alone {
		nodes = hosts[:1]
	}
	token := attach.NewToken()
	outputs := make([]bytes.Buffer, len(nodes))
	errs := make([]error, len(nodes))
	var wait sync.WaitGroup
	for i, h := range nodes {
		cmd, err := f.command(l, hosts, i, token, self, program, args)
		if err != nil {
			cancel()
			wait.Wait()
			return nil, err
		}
		var complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &outputs[i], &complaint
		err = l.Start(h.Index, cmd)
		closeAll(cmd.ExtraFiles[:1]) // the gauge is the lab's
		if err != nil {
			cancel()
			wait.Wait()
			return nil, fmt.Errorf("starting node %d: %w", i, err)
		}
		wait.Go(func() {
			ended := make(chan struct{})
			go func() {
				select {
				case <-ctx.Done():
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
				case <-ended:
				}
			}()
			err := cmd.Wait()
			close(ended)
			if err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("node %d: %s", i, Complaint(complaint.String(), err))
				cancel() // the others would only wait for it
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return decode[R](outputs)
}

// decode decodes the JSON document of each node.
func decode[R any](printed []bytes.Buffer) ([]R, error) {
	results := make([]R, len(printed))
	for i := range results {
		if err := json.Unmarshal(printed[i].Bytes(), &results[i]); err != nil {
			return nil, fmt.Errorf("reading what node %d printed: %w", i, err)
		}
	}
	return results, nil
}

// provokingSize is less than the number of frames that a full packet cache makes (engine.Native:
// 1024 lines, some 45 packets a frame of 1500 bytes).
const provokingSize = 8

// provokingSlots is less than the number of packets of a full packet cache.
const provokingSlots = 256

// processor returns the processor, counted from 0, of a node; -1: the node is not pinned.
func (f *Flags) processor(node, nodes int) int {
	switch n := runtime.NumCPU(); {
	case f.CPU < 0 && (nodes <= n || f.Alone):
		return node
	case f.CPU < 0 && f.Apart && n > 1 && node == 0:
		return 0
	case f.CPU < 0 && f.Apart && n > 1:
		return 1 + node%(n-1)
	}
	return f.CPU
}

// command prepares the process of a node, of those on the given hosts.
func (f *Flags) command(l *lab.Lab, hosts []lab.Host, node int, token attach.Token, self, program string,
	args []string) (*exec.Cmd, error) {
	h := hosts[node]
	all := l.Peers(h.Index)
	peers := all.Peers
	all.Peers = nil
	for i, host := range hosts {
		p := peers[host.Index]
		p.Node = uint16(i)
		all.Peers = append(all.Peers, p)
	}
	file, err := f.encapsulated(all)
	if err != nil {
		return nil, err
	}
	file.Token = token
	memory, err := peersFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range h.Interfaces {
		names = append(names, i.Name)
	}
	rxRing, fillFrames := f.rxRing, f.fillFrames
	if f.provoke && node%2 == 0 {
		fillFrames = provokingSize
	} else if f.provoke {
		rxRing = provokingSize
	}
	key := f.key
	if key != "" {
		key, _ = filepath.Abs(key) // else it is refused where it is read
	}
	line := append([]string{program, "--json", "--iface", strings.Join(names, ","), "--node", fmt.Sprint(node),
		"--peers", "/proc/self/fd/3", "--xdp", f.Mode, "--bind", f.Bind,
		"--profile", f.profile, "--cpu", fmt.Sprint(f.processor(node, len(hosts))), "--slots",
		fmt.Sprint(f.Slots), "--wait", f.Wait.String(),
		fmt.Sprintf("--huge-pages=%t", f.hugePages), fmt.Sprintf("--jumbo=%t", f.Jumbo), "--key=" + key,
		fmt.Sprintf("--readable=%t", f.readable)}, args...)
	for _, o := range []struct {
		flag string
		v    int
	}{{"--gid", f.gid}, {"--vlan", f.vlan}, {"--rx-ring", rxRing}, {"--fill-frames", fillFrames}} {
		if o.v != 0 { // which stands for what the node chooses
			line = append(line, o.flag, fmt.Sprint(o.v))
		}
	}
	if q := f.chosenQueue(); q != nil {
		line = append(line, "--queue", fmt.Sprint(*q))
	}
	if f.Alone {
		line = append(line, "--alone")
	}
	files := []*os.File{memory}
	if f.counted != nil && node == 0 {
		files = append(files, f.counted)
		line = append(line, "--gauge", "4")
	}
	cmd := l.Command(h.Index, self, line...)
	cmd.ExtraFiles = files
	return cmd, nil
}

// peersFile returns a peers file without a name, so that no file is left behind.
func peersFile(c *cluster.File) (*os.File, error) {
	b, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("peers", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a peers file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "peers")
	_, err = file.WriteAt(b, 0)
	return file, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Complaint returns the last line that a failed node wrote, or how the node ended.
func Complaint(stderr string, err error) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return strings.TrimPrefix(last, "funet: ")
	}
	return err.Error()
}
