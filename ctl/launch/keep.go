package launch

// This file keeps a job of direct ports while daemons come and go. The job's processes do not need
// the daemons to talk to each other. The next daemon takes the job over from the one before, when
// the job's launcher asks for it again (daemon/resume.go).

import (
	"cmp"
	"context"
	"time"

	"github.com/funet/funet/uspace/attach"
)

const (
	// lookAtDaemon is the interval between two looks at the connection to the daemon.
	lookAtDaemon = 20 * time.Millisecond
	// keepFor is the time for which a job is asked for again. Its processes show their tickets for
	// as long (package attach).
	keepFor = 30 * time.Second
)

// until returns the context that ends a request under way. The caller holds talk.
func (l *local) until() context.Context {
	return cmp.Or(l.asks, context.Background())
}

// keep starts a goroutine that asks for the job again when its connection ends. talk is held.
func (l *local) keep(r attach.JobRequest) {
	request, err := r.Encode()
	if err != nil {
		return // it was encoded before
	}
	l.asks, l.letGo = context.WithCancel(context.Background())
	go l.keeping(l.asks, request)
}

// keeping looks at the connection until the job need not be kept, or no daemon takes it in time.
func (l *local) keeping(until context.Context, request []byte) {
	t := time.NewTicker(lookAtDaemon)
	defer t.Stop()
	for left := time.Now(); time.Since(left) < keepFor; {
		select {
		case <-t.C:
		case <-until.Done():
			return
		}
		if l.there(until, request) {
			left = time.Now()
		}
	}
}

// there reports whether the job's connection exists. If not, it asks the next daemon for the job.
func (l *local) there(until context.Context, request []byte) bool {
	l.talk.Lock()
	defer l.talk.Unlock()
	if until.Err() != nil || l.conn != nil && !attach.HungUp(l.conn) {
		return true
	}
	l.hangUp()
	// A slow daemon carries out the request late. Closing the connection before would end the job.
	answer, err := l.askLocked(request, keepFor)
	if err == nil {
		_, err = attach.DecodeJobAnswer(answer)
	}
	if err != nil { // there is none, or it is about to end
		l.hangUp()
	}
	return err == nil
}
