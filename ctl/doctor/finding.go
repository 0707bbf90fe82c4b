package doctor

// This file defines the doctor's findings.

import (
	"fmt"
	"slices"
)

// Verdict says how bad a finding is.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Finding is one line of the doctor's report.
type Finding struct {
	Check string `json:"check"` // stable name of what was checked
	// subject: "host", an interface, "daemon", or the peer as the user named it
	Subject string  `json:"subject"`
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	Cure    string  `json:"cure,omitempty"` // of a finding that is not OK
}

// Judge derives findings from facts.
func Judge(f *Facts) []Finding {
	list := judgeHost(&f.Host, f.Daemon != nil && f.Daemon.State == Answers)
	if f.Interface != nil {
		list = append(list, judgeInterface(f.Interface)...)
	}
	if f.Daemon != nil {
		list = append(list, judgeDaemon(f.Daemon, &f.Host, f.Interface)...)
	}
	list = append(list, judgeKeys(f)...)
	if f.Peer != nil {
		list = append(list, judgePeer(f)...)
	}
	return list
}

// Worst returns the worst verdict of findings.
func Worst(list []Finding) Verdict {
	order := []Verdict{OK, Warn, Fail}
	worst := 0
	for _, f := range list {
		worst = max(worst, slices.Index(order, f.Verdict))
	}
	return order[worst]
}

// about collects findings about one subject.
type about struct {
	subject string
	list    []Finding
}

func (a *about) ok(check, format string, args ...any) {
	a.list = append(a.list, Finding{check, a.subject, OK, fmt.Sprintf(format, args...), ""})
}

func (a *about) warn(check, cure, format string, args ...any) {
	a.list = append(a.list, Finding{check, a.subject, Warn, fmt.Sprintf(format, args...), cure})
}

func (a *about) fail(check, cure, format string, args ...any) {
	a.list = append(a.list, Finding{check, a.subject, Fail, fmt.Sprintf(format, args...), cure})
}
