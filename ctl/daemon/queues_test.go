package daemon_test

// This file tests daemons whose interfaces have several queues.

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
	"github.com/vishvananda/netlink"
)

// Rule: status, log and metrics tell which queues are proven: by frames that came through them, and
// by peers' answers to hellos, before any program sends.
func TestQueuesAreProven(t *testing.T) {
	long.Test(t)
	b := newBedOf(t, lab.Options{Hosts: 2, Queues: 3})
	var log logged
	metrics := filepath.Join(b.dir, "metrics.sock")
	native := func(c *daemon.Config) { c.Attach = xdp.AttachNative }
	daemons := []*running{b.start(0, func(c *daemon.Config) {
		native(c)
		c.Log, c.Metrics = log.add, "unix:"+metrics
	}), b.start(1, native)}
	// A veth brings a frame to the queue of the number of that which it left on: so hellos prove
	// all, with no job.
	for _, d := range daemons {
		until(t, "all queues are proven", func() bool {
			why := linkOf(t, d).QueuesWhy
			return strings.Contains(why, "frames came on queue 0 to 2") &&
				strings.Contains(why, "peers got what left on 0 to 2")
		})
	}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 200)
	until(t, "the log says so", func() bool { return log.has("interface fu0, 3 queues: frames came on queue") })
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", metrics)
		}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://funid/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`funid_port_queue_proven{direction="receive",interface="fu0",queue="1"} 1`,
		`funid_port_queue_proven{direction="send",interface="fu0",queue="1"} 1`,
		`funid_port_queue_proven{direction="receive",interface="fu0",queue="0"} 1`,
		`funid_port_queue_proven{direction="send",interface="fu0",queue="2"} 1`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
}

// Rule: a daemon all of whose frames leave and arrive on another queue than the first works, in
// both forms in which frames travel; the status says on which they are, and that the driver does
// not steer.
func TestAnotherQueue(t *testing.T) {
	for _, form := range cluster.Encaps {
		t.Run(form.String(), func(t *testing.T) {
			b := newBedOf(t, lab.Options{Hosts: 2, Queues: 3})
			queue := 2
			var daemons []*running
			for host := range 2 {
				daemons = append(daemons, b.start(host, func(c *daemon.Config) {
					c.Attach, c.Encap, c.Queue = xdp.AttachNative, &form, &queue
				}))
			}
			_, nodes := group(t, daemons, 0, 1)
			pingPong(t, nodes, 500)
			for _, d := range daemons {
				until(t, "queue 2 is proven", func() bool {
					return linkOf(t, d).QueuesWhy ==
						"frames came on queue 2; none were steered to 0 to 1; peers got what left on 2; nothing was sent on 0 to 1"
				})
				if s := linkOf(t, d); !strings.Contains(s.XDPWhy, "frames leave on queue 2 and arrive on any: steer ") {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// Rule: a queue on which frames are lost, wherever that is, is left out when the interface has been
// opened, and said once in log and status; jobs work without it, and it is taken in again when
// hellos pass.
func TestQueueLosesFrames(t *testing.T) {
	long.Test(t)
	b := newBedOf(t, lab.Options{Hosts: 2, Topology: lab.Router, Queues: 3})
	var at *xdp.Attachment
	mend := func() {
		if at != nil {
			if err := at.Close(); err != nil {
				t.Error(err)
			}
			at = nil
		}
	}
	err := b.lab.DoRouter(func() error {
		l, err := netlink.LinkByName("fup0") // which leads to host 0
		if err != nil {
			return err
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lossy", Type: ebpf.XDP, License: "MIT",
			Instructions: asm.Instructions{
				asm.LoadMem(asm.R2, asm.R1, 16, asm.Word), // rx_queue_index
				asm.JNE.Imm(asm.R2, 1, "pass"),
				// But ARP passes: which queue the kernel sends it on depends on a number that it
				// draws when it boots.
				asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // data
				asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // data_end
				asm.Mov.Reg(asm.R4, asm.R2),
				asm.Add.Imm(asm.R4, 14), // an Ethernet header
				asm.JGT.Reg(asm.R4, asm.R3, "pass"),
				asm.LoadMem(asm.R4, asm.R2, 12, asm.Byte), // EtherType
				asm.LoadMem(asm.R5, asm.R2, 13, asm.Byte),
				asm.LSh.Imm(asm.R4, 8),
				asm.Or.Reg(asm.R4, asm.R5),
				asm.JEq.Imm(asm.R4, 0x0806, "pass"),
				asm.Mov.Imm(asm.R0, 1), // XDP_DROP
				asm.Return(),
				asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"), // XDP_PASS
				asm.Return(),
			}})
		if err != nil {
			return err
		}
		defer p.Close()
		at, err = xdp.Attach(p, l.Attrs().Index, xdp.AttachNative)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer mend()
	var log journal
	daemons := []*running{b.start(0, func(c *daemon.Config) { c.Log = log.add }), b.start(1, nil)}
	log.says(t, "left on queue 1 none was answered, while those on others were; frames leave on the others")
	until(t, "the status says so", func() bool {
		return strings.Contains(linkOf(t, daemons[0]).QueuesWhy, "hellos that left on 1 were not answered")
	})
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 50)
	mend()
	log.says(t, "a hello that left on queue 1 was answered; frames leave on it again")
	pingPong(t, nodes, 50)
}
