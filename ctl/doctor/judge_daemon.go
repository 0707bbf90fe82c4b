package doctor

// This file judges funid on this host.

import (
	"fmt"
	"strings"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/encap"
)

// judgePorts judges direct ports, by the trial that funid made when it started.
func judgePorts(a *about, d *Daemon) {
	const check = "direct ports"
	switch c := &d.Info.Carriage; {
	case c.Chosen == attach.CarriageDirect && d.Direct == nil:
		a.warn(check,
			"`systemctl restart funid-ports`, which ends direct jobs, or restart funid, where that has started it",
			"the process that makes them does not answer, or is of the release before")
	case c.Chosen == attach.CarriageDirect && d.Direct.Orphaned > 0:
		a.warn(check, "look again in a minute: those that nobody asks for end then",
			"of %d nobody has asked for %d since funid was replaced", d.Direct.Ports, d.Direct.Orphaned)
	case c.Chosen == attach.CarriageDirect:
		a.ok(check, "jobs may have them, and %d are open, %d kept by processes whose place has ended; proven: %s",
			d.Direct.Ports, d.Direct.Kept, c.Why)
	case c.Configured == attach.CarriageAuto || c.Configured == attach.CarriageDirect:
		a.warn(check, "do what it says, and restart funid; or `carriage: daemon`, and all messages travel by funid",
			"none: %s", c.Why)
	default:
		a.ok(check,
			"none, as configured; with `carriage: auto` each process has a card of its own where the kernel can")
	}
}

func judgeDaemon(d *Daemon, h *Host, i *Interface) []Finding {
	a := &about{subject: "funid"}
	switch d.State {
	case Answers:
		a.ok("daemon", "card %d of %s at %s, interfaces %s, XDP %s, %s", d.Info.Card, d.Info.Host, d.Socket,
			strings.Join(d.Info.Interfaces, ", "), d.Info.XDPMode, d.Info.BindMode)
	case NoSocket, Deaf:
		report, cure := a.warn,
			"`systemctl start funid`, or start it by hand (`funid --help`); say where it listens with --socket"
		if d.Wanted {
			report = a.fail
		}
		report("daemon", cure, "none runs: %s at %s; programs need one, or root and a card of their own",
			d.State, d.Socket)
	case Forbidden:
		a.fail("daemon",
			"let everybody reach the socket: its folder wants mode 755 and the socket 666 (`ls -ld`); funid decides itself who may do what", "this user may not connect to %s", d.Socket)
	case Foreign:
		a.fail("daemon", "run the same version of FUNet on both sides, and restart funid after an upgrade",
			"what listens at %s speaks another version: %s", d.Socket, d.Err)
	case Silent:
		a.fail("daemon", "look into its log (`journalctl -u funid`), and restart it",
			"funid at %s does not answer: stopped, or stuck", d.Socket)
	default:
		a.fail("daemon", "say with --socket where funid listens, or restart it",
			"what listens at %s is not a funid: %s", d.Socket, d.Err)
	}
	if d.State != Answers {
		return a.list
	}
	if d.Info.ABI != d.ABI {
		a.fail("daemon version", "run the same version of FUNet on both sides, and restart funid after an upgrade",
			"funid has ABI %d, this program %d", d.Info.ABI, d.ABI)
	} else {
		a.ok("daemon version", "ABI %d, as this program's", d.ABI)
	}
	judgePorts(a, d)
	if p := d.Info.UDPPort; h.Kubernetes && p != 0 && encap.NodePort(p) {
		a.warn("UDP port", fmt.Sprintf("`port: %d` in the peers file of all hosts at once", encap.KubernetesPort),
			"Kubernetes may give port %d to a service (NodePort, 30000 to 32767)", p)
	}
	if i != nil && i.There && !i.HasDaemon {
		a.warn("daemon interface",
			"add it to the peers file or to `interfaces` in funid's configuration, or look at another with --iface",
			"funid does not have %s", i.Name)
	}
	return a.list
}
