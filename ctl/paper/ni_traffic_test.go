package paper

import (
	"math"
	"testing"

	"github.com/funet/funet/hwprofiles"
)

// Rule: the time of the engine's traffic on two machines of
// the profile is within 1 % of the model's totals, in both profiles. A fetch of an entry of the
// window table takes one DMA access longer (3.3, 4.3).
func TestTraffic(t *testing.T) {
	for name, written := range map[string]float64{"tokyo": 2725.3, "tokyo-text": 2838.2} {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newTokyo(p)
		if err != nil {
			t.Fatal(err)
		}
		all, err := m.measure()
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != len(trials()) || worst(all) > 1 {
			t.Errorf("%s: %+v", name, all)
		}
		for i := 0; i+1 < len(all); i += 2 {
			miss, hit := all[i], all[i+1]
			if miss.Entry != "miss" || hit.Entry != "hit" || miss.EngineNS-hit.EngineNS != 700 {
				t.Errorf("%s: %+v and %+v", name, miss, hit)
			}
		}
		if hit := all[1]; math.Abs(float64(hit.EngineNS)-written) > written/100 {
			t.Errorf("%s: a write of 32 bytes took %d ns, want %v", name, hit.EngineNS, written)
		}
		if hit := all[3]; name == "tokyo" && math.Abs(float64(hit.EngineNS)-5287.6) > 52 {
			t.Errorf("a write of 64 bytes took %d ns, want 5287.6", hit.EngineNS)
		}
	}
}
