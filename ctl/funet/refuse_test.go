package main

// This file tests what the commands refuse before they make or ask for anything, and their help.

import (
	"strings"
	"testing"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/tests/help"
)

// What no lab and no card can be is refused at once, with the flag and what it takes: nothing of
// these needs a privilege. A zero that was given is not the default.
func TestRefusedBeforeALab(t *testing.T) {
	for args, want := range map[string]string{
		"pingpong --lab 2 --mtu 68":                                     "--mtu 68: use 674 to 65535",
		"pingpong --lab 2 --mtu 103":                                    "--mtu 103: use 674 to 65535",
		"pingpong --lab 2 --mtu 673 --xdp generic":                      "--mtu 673: use 674",
		"pingpong --lab 2 --mtu 0":                                      "--mtu 0: use 674",
		"pingpong --lab 1":                                              "--lab 1: use 2 to 8",
		"pingpong --lab 2 --gid 0":                                      "--gid 0",
		"pingpong --lab 2 --slots 0":                                    "--slots 0: use a power of two",
		"pingpong --lab 2 --slots 3":                                    "--slots 3: use a power of two",
		"pingpong --lab 2 --vlan 4095":                                  "--vlan 4095: use 1 to 4094",
		"pingpong --lab 2 --vlan 0":                                     "--vlan 0: use 1 to 4094",
		"pingpong --lab 2 --rx-ring 0":                                  "--rx-ring 0",
		"pingpong --lab 2 --fill-frames 0":                              "--fill-frames 0: use 1 to 512",
		"pingpong --lab 2 --cpu -5":                                     "--cpu -5",
		"pingpong --lab 2 --cpu 100000":                                 "processor 100000",
		"pingpong --lab two":                                            `--lab "two": use a whole number`,
		"pingpong --iface e --node 0 --peers p --steer":                 "--steer is that of a lab",
		"pingpong --iface e --node 0 --peers p --mtu 900":               "--mtu is that of a lab",
		"stream --lab 2 --senders 2":                                    "--senders 2: use 1",
		"stream --lab 2 --words 21":                                     "--words 21: use 1 to 20",
		"stream --lab 2 --messages 0":                                   "--messages 0: use 1 to",
		"transfer --lab 2 --block 17":                                   "--block 17: use a multiple of 16",
		"transfer --lab 2 --bytes 0":                                    "--bytes 0: use a multiple of --block",
		"transfer --lab 2 --depth 257":                                  "--depth 257: use 1 to 256",
		"transfer --lab 2 --bytes 67108864 --block 67108864 --depth 17": "--depth 17: use 1 to 16",
		"bench peers --only nosuch":                                     `no peer "nosuch"; use funet,`,
		"lab up --mtu 67":                                               "--mtu 67: use 68 to 65535",
		"lab up --daemons --mtu 673":                                    "--mtu 673: use 674",
		"lab up --queues 0":                                             "--queues 0: use 1 to 64",
		"lab up --daemons --bind bogus":                                 "--bind bogus",
		"lab up --daemons --polling bogus":                              `--polling "bogus": use adaptive`,
		"lab up --xdp native":                                           "add --daemons",
		"run --gid 0 -- true":                                           "--gid 0",
		"run --xdp native -- true":                                      "--xdp is that of a lab made for the occasion",
		"run --rsh kubectl -- true":                                     "--rsh says how --hosts are reached",
		"run --hosts a --rsh= -- true":                                  "--rsh: use a command such as",
		"run --hosts a --rsh no-such-program-9 -- true":                 "starting no-such-program-9 to reach a",
		"run --lab foo -- true":                                         `"foo" stands before "--": a lab is named as in --lab=foo`,
		"run --lab --profile bogus -- true":                             "--profile bogus",
		"run --lab -- no-such-program":                                  "cannot start the program no-such-program",
	} {
		c := root()
		c.SetArgs(strings.Fields(args))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Help has no names of arguments that are none.
func TestHelp(t *testing.T) {
	for _, odd := range help.Odd(root()) {
		t.Error(odd)
	}
}

// People are told names and grammatical numbers.
func TestWords(t *testing.T) {
	for n, want := range map[int]string{0: "0 connections", 1: "1 connection", 2: "2 connections"} {
		if got := output.Count(n, "connection"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for uid, want := range map[uint32]string{0: "root", 4_000_000_000: "4000000000"} {
		if got := output.UserName(uid); got != want {
			t.Errorf("user %d is %q, want %q", uid, got, want)
		}
	}
}
