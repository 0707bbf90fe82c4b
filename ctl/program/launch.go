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
	return lab.Options{Hosts: f.Lab, Topology: lab.Topology(f.topology), IPv6: f.ipv6, MTU: f.MTU, Steer: f.Steer,
		Queues: f.queues}
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

// RunNodes runs the program on all hosts of the lab, or with f.Alone on host 0, and decodes the
// JSON document of each node. With --card direct the processes are an ordinary user's and use
// direct ports.
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
	hosts := l.Hosts()
	if f.Alone {
		hosts = hosts[:1]
	}
	token := attach.NewToken()
	outputs := make([]bytes.Buffer, len(hosts))
	errs := make([]error, len(hosts))
	var wait sync.WaitGroup
	for i, h := range hosts {
		cmd, err := f.command(l, h, token, self, program, args)
		if err != nil {
			cancel()
			wait.Wait()
			return nil, err
		}
		var complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &outputs[i], &complaint
		err = l.Start(i, cmd)
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

// processor returns the processor, counted from 0, of the node on a host; -1: the node is not
// pinned.
func (f *Flags) processor(host, hosts int) int {
	switch n := runtime.NumCPU(); {
	case f.CPU < 0 && (hosts <= n || f.Alone):
		return host
	case f.CPU < 0 && f.Apart && n > 1 && host == 0:
		return 0
	case f.CPU < 0 && f.Apart && n > 1:
		return 1 + host%(n-1)
	}
	return f.CPU
}

// command prepares the process of one host.
func (f *Flags) command(l *lab.Lab, h lab.Host, token attach.Token, self, program string,
	args []string) (*exec.Cmd, error) {
	file, err := f.encapsulated(l.Peers(h.Index))
	if err != nil {
		return nil, err
	}
	file.Token = token
	peers, err := peersFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range h.Interfaces {
		names = append(names, i.Name)
	}
	rxRing, fillFrames := f.rxRing, f.fillFrames
	if f.provoke && h.Index%2 == 0 {
		fillFrames = provokingSize
	} else if f.provoke {
		rxRing = provokingSize
	}
	key := f.key
	if key != "" {
		key, _ = filepath.Abs(key) // else it is refused where it is read
	}
	all := append([]string{program, "--json", "--iface", strings.Join(names, ","), "--node", fmt.Sprint(h.Index),
		"--peers", "/proc/self/fd/3", "--xdp", f.Mode, "--bind", f.Bind,
		"--profile", f.profile, "--cpu", fmt.Sprint(f.processor(h.Index, len(l.Hosts()))), "--slots",
		fmt.Sprint(f.Slots), "--wait", f.Wait.String(),
		fmt.Sprintf("--huge-pages=%t", f.hugePages), fmt.Sprintf("--jumbo=%t", f.Jumbo), "--key=" + key,
		fmt.Sprintf("--readable=%t", f.readable)}, args...)
	for _, o := range []struct {
		flag string
		v    int
	}{{"--gid", f.gid}, {"--vlan", f.vlan}, {"--rx-ring", rxRing}, {"--fill-frames", fillFrames}} {
		if o.v != 0 { // which stands for what the node chooses
			all = append(all, o.flag, fmt.Sprint(o.v))
		}
	}
	if q := f.chosenQueue(); q != nil {
		all = append(all, "--queue", fmt.Sprint(*q))
	}
	if f.Alone {
		all = append(all, "--alone")
	}
	files := []*os.File{peers}
	if f.counted != nil && h.Index == 0 {
		files = append(files, f.counted)
		all = append(all, "--gauge", "4")
	}
	cmd := l.Command(h.Index, self, all...)
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
