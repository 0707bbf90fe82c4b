// Package hwprofiles describes the hardware whose times and limits a card, its bus and its network
// are given. A profile is data (design idea 6, uspace/DESIGN.md): the costs of operations and the
// limits of the card.
//
// The journey of a figure: it stands in a YAML file, with a comment and an entry of `sources` that
// name its source. [Load] finds the file by name among the embedded ones, or by path. It reads the
// file strictly, checks it as a whole, and returns a [Profile] whose fields have their units in
// their names. `funet profile show` prints the figure with its source.
//
// The embedded profiles:
//
//	native               nothing costs anything and no limit is set
//	sbus-arctic          the thesis's machine (chapter 5, section 6.1)
//	sbus-arctic-1994     the same as the thesis's simulator seems to have had it: with the
//	                     hypotheses of Options
//	sbus-arctic-paper    the same with the conference paper's later network and card
//	hamlyn               the prototype of Hamlyn and its library Rats, by the steps of
//	                     HPL-95-86: a machine for remote writes
//	hamlyn-statemachine  the same with the interface as state machines, as HPL-95-86 projects
//	                     it (4.2)
//	tokyo, tokyo-text    the bus and link of the Tokyo network interface, by its sum and by its
//	                     text: a machine for operations on windows
//	virt-ni              the virtualised interface of Froening's thesis (2007): triggers, units
//	                     that any context may use, and their network
//	ultra, ultra-asic,   its ULTRA: on a PCI board, with faster units, and on a board beside
//	ultra-htx            the processor
//	cm5                  the CM-5, which thesis and paper compare with, as a table of the costs
//	                     of its calls
//
// A figure of zero costs nothing or, where it is a limit, sets none: the engine then uses
// its own. A file:
//
//	name: mine                # letters, digits and dashes
//	about: one line
//	cpu:                      # sections: cpu, bus, card, units, network; each as a whole
//	  clock_mhz: 40           # or not at all, which makes all its figures zero
//	  ...
//	io:                       # the times of whole accesses, in place of a bus; and ultra: these
//	  register_read_ns: 630   # are of the virtualised interface (virtual.go), as are further
//	  ...                     # figures of card, units and network, each of which may be left out
//	costs:                    # measured costs of whole calls, for a machine without a model
//	  - {call: CMAM_4, measure: send, cycles: 50.7, bytes: 0}
//	sources:
//	  cpu.clock_mhz: thesis 6.1.1
//
// `funet profile show NAME --yaml` writes one to start from. Load refuses unknown keys, keys given
// twice or left out of their section, wrong types, numbers out of range, and figures that
// contradict each other. It also refuses anchors, aliases, tags and second documents. The error
// names file, line, column, and what to write instead. No bytes make it panic.
//
// Time is exact: frequencies are whole kilohertz ([Clock]), cycles are whole tenths
// ([Cycles]), and virtual time is whole nanoseconds. Every figure of the 40 MHz and 25 MHz
// machines is a whole number of nanoseconds (a cycle is 25 or 40 ns, and 27.2 CPU cycles
// are 680 ns); at the CM-5's 33 MHz none is, and [Clock.Duration] rounds.
//
// Nothing here keeps state; every function may be called from any goroutine.
package hwprofiles
