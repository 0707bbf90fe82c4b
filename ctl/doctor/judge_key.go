package doctor

// This file judges keys: the key files of this host, and whether the keys of this host's card and a
// peer's card match.

import (
	"errors"
	"io/fs"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/keyfile"
)

func judgeKeys(f *Facts) []Finding {
	a := &about{subject: "host"}
	for i := range f.Keys {
		f.Keys[i].judge(a)
	}
	if f.Daemon != nil && f.Daemon.State == Answers && len(f.Daemon.Keys) == 0 {
		if len(f.Keys) == 0 {
			a.ok("key file", "none: whoever can send frames on the network can be any host; `funet key new` makes one")
		} else {
			a.warn("daemon key",
				"`systemctl restart funid`, or name the file in the configuration or peers file of this funid",
				"funid has none, and others are named: it was started before")
		}
	}
	return a.list
}

func (k *Key) judge(a *about) {
	switch err := k.Err; {
	case k.Handed && (err == nil || k.Has != ""): // only funid sees it
		if k.Has == "" {
			a.ok("key file", "%s is for systemd to hand to funid, which says whether it is good", k.File)
		} else {
			a.ok("key file", "key %s, which systemd has handed to funid", k.Has)
		}
	case err == nil && k.Has != "" && k.Holds != "" && k.Has != k.Holds:
		a.warn("key file", "restart funid, on all hosts that have the new key; or put the old one back",
			"funid has key %s, and %s holds another by now, key %s", k.Has, k.File, k.Holds)
	case err == nil && k.Service:
		a.warn("key file", "`systemctl edit funid`, [Service], LoadCredential=funet.key:"+k.File+", and name the key "+
			keyfile.Credentials+"funet.key; without the unit, start funid as the user whose file it is",
			"%s is for its owner only, and the service is a user of its own", k.File)
	case err == nil && k.Holds == "" && k.Has == "":
		a.ok("key file", "%s has 32 bytes that nobody but its owner may read; root sees which key it is", k.File)
	case err == nil && k.Holds == "":
		a.ok("key file", "key %s from %s, which nobody but its owner may read", k.Has, k.File)
	case err == nil:
		a.ok("key file", "key %s in %s, which nobody but its owner may read", k.Holds, k.File)
	case errors.Is(err, keyfile.ErrMode):
		a.fail("key file", "`chmod 600 "+k.File+"`; if somebody else may have read it, make another on all hosts",
			"%v", err)
	case errors.Is(err, keyfile.ErrOwner):
		a.fail("key file", "`chown root "+k.File+"`, or the user as whom funid or the program runs", "%v", err)
	case errors.Is(err, keyfile.ErrKind):
		a.fail("key file",
			"copy the file of a host whose key is good; if there is none, `funet key new` makes one for all", "%v", err)
	case errors.Is(err, fs.ErrNotExist):
		a.fail("key file", "copy the file of the other hosts there; if none has one, `funet key new "+k.File+
			"` makes one for all", "there is no key file %s", k.File)
	case errors.Is(err, fs.ErrPermission):
		a.warn("key file", "look as root", "%s could not be looked at: %v", k.File, err)
	default:
		a.fail("key file", "put right what is said; `funid --help` and `funet lab peers` show such files", "%v", err)
	}
}

// judgeKey reports whether the keys of the two cards match, as this host's card has just found out.
func (p *Peer) judgeKey(a *about) {
	h := p.Hello
	if h == nil || h.Err != "" || !h.Answered {
		return
	}
	const same = "; copy the file as secretly as a password, `funet key show` tells one key from another"
	switch state := h.Key.State; state {
	case "": // of a funid that does not say
	case report.KeyOther:
		a.fail("key", "give both hosts the same key, and restart funid where it is another"+same,
			"other key: this host has key %s for it, and it has another", h.OwnKey)
	case report.KeyNotThere:
		a.fail("key",
			"put this host's key there, name it there (key: in the peers file or funid's configuration), and restart funid there"+same, "no key there: this host has key %s, and it has none", h.OwnKey)
	case report.KeyNotHere:
		a.fail("key",
			"put its key here, name it (key: in the peers file or funid's configuration), and restart funid here"+same,
			"no key here: it has one, and takes nothing without")
	case report.KeyNone:
		a.ok("key", "neither host has one: frames are neither encrypted nor authenticated")
	default:
		if h.Key.Doubt != "" {
			a.fail("key", "restart funid on this host with the key that both are to have"+same+
				"; if both have the same, somebody sends in its name",
				"%s: it had key %s until now, and what it says now is not of that", h.Key.Doubt, h.OwnKey)
			return
		}
		if !h.Key.Met {
			a.warn("key", "look again; if it stays so, frames of EtherType 0x88B5 or UDP do not pass, see below",
				"it did not answer a greeting with key %s", h.OwnKey)
			return
		}
		a.ok("key", "key %s on both hosts; frames are %s", h.OwnKey, state)
	}
}
