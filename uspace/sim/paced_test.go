package sim

import (
	"testing"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

func TestExperiment(t *testing.T) {
	p, err := hwprofiles.Load("sbus-arctic")
	if err != nil {
		t.Fatal(err)
	}
	var rows []apps.CMAMRow
	k, err := NewPacedCluster(p, 32, 256, func(p *Process) error {
		e, err := p.Endpoint(32)
		if err != nil {
			return err
		}
		r, err := apps.CMAM(e, p.Context().Register, p.Now, apps.CMAMOptions{Messages: 200})
		if r != nil {
			rows = r
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Second); err != nil {
		t.Error(err)
	}
	for _, r := range rows {
		d := 1.0
		if r.Bytes > 0 {
			d = float64(r.Bytes) / 16
		}
		t.Logf("%s,%s,%.1f", r.Name, r.Measure, r.Nanoseconds/25/d)
	}
	t.Log(k.Now(), k.Events())
}
