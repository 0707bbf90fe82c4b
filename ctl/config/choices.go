package config

// This file has the words of a configuration, and their values.

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/funet/funet/uspace/attach"
)

// Accesses says what the daemon does about refused accesses to windows.
type Accesses uint8

const (
	// CountAccesses counts refused accesses.
	CountAccesses Accesses = iota
	// SuspendWindows also has a window suspended when one node has had Config.RefusedLimit accesses
	// refused.
	SuspendWindows
)

// String returns the name that the configuration uses.
func (a Accesses) String() string { return [...]string{"count", "suspend"}[a&1] }

// DefaultRefusedLimit is the number of refused accesses of one node that suspends a window, if the
// configuration does not say.
const DefaultRefusedLimit = 1000

// MostRefused is the largest Config.RefusedLimit.
const MostRefused = 1_000_000

// Carriage says how messages of jobs travel.
type Carriage int

const (
	// DaemonCarriage sends all messages through the daemon's card.
	DaemonCarriage Carriage = iota
	// DirectCarriage gives direct ports to jobs that ask for them. The daemon does not start on a
	// host that cannot have direct ports.
	DirectCarriage
	// AutoCarriage is DirectCarriage where ports carry frames, and else DaemonCarriage.
	AutoCarriage
)

var carriages = [...]string{attach.CarriageDaemon, attach.CarriageDirect, attach.CarriageAuto}

func (c Carriage) String() string { return carriages[c] }

// Turns says by which time groups take turns on a card that has room for few of them.
type Turns int

const (
	// TurnsAlone have each host take its turns for itself.
	TurnsAlone Turns = iota
	// TurnsTogether have all hosts that say so take turns at the same time.
	TurnsTogether
)

// String returns the name that the configuration uses.
func (t Turns) String() string { return [...]string{"alone", "together"}[t&1] }

// LogFormat is the format of lines.
type LogFormat int

// The formats.
const (
	// LogText is for people and for journald, which adds the time itself and takes a level in front
	// (sd-daemon(3)).
	LogText LogFormat = iota
	LogJSON
)

// String names the format.
func (f LogFormat) String() string { return [...]string{"text", "json"}[f] }

// LogLevel is the lowest level of lines that are written.
type LogLevel slog.Level

// The levels.
const (
	LogInfo  = LogLevel(slog.LevelInfo)
	LogDebug = LogLevel(slog.LevelDebug)
	LogWarn  = LogLevel(slog.LevelWarn)
	LogError = LogLevel(slog.LevelError)
)

// String names the level.
func (l LogLevel) String() string { return strings.ToLower(slog.Level(l).String()) }

// ParseLogFormat reads the name of a format.
func ParseLogFormat(s string) (LogFormat, error) { return named("log-format", s, LogText, LogJSON) }

// ParseLogLevel reads the name of a level.
func ParseLogLevel(s string) (LogLevel, error) {
	return named("log-level", s, LogDebug, LogInfo, LogWarn, LogError)
}

// named finds a value by its name.
func named[T fmt.Stringer](what, s string, all ...T) (T, error) {
	var names []string
	for _, v := range all {
		if v.String() == s {
			return v, nil
		}
		names = append(names, v.String())
	}
	var none T
	return none, fmt.Errorf("%s %q: use %s", what, s, strings.Join(names, ", "))
}

// MemoryKind is how memory that processes share is kept whole.
type MemoryKind int

const (
	// AnyMemory is the first of the following kinds that works.
	AnyMemory MemoryKind = iota
	// ImmutableMemory cannot have holes.
	ImmutableMemory
	// WatchedMemory can have holes; a process that makes one loses its context.
	WatchedMemory
)

var memoryKinds = [...]string{"auto", "immutable", "watched"}

func (k MemoryKind) String() string { return memoryKinds[k] }

// Polling says what the card's thread does while there is nothing to do.
type Polling uint8

// The ways of polling.
const (
	Adaptive Polling = iota
	Spin
	Sleep
)

var pollings = [...]string{"adaptive", "spin", "sleep"}

// String returns the name that the configuration uses.
func (p Polling) String() string { return pollings[p] }

// ParsePolling reads a name.
func ParsePolling(s string) (Polling, error) {
	i := slices.Index(pollings[:], s)
	if i < 0 {
		return 0, fmt.Errorf("polling %q: use adaptive, spin or sleep", s)
	}
	return Polling(i), nil
}
