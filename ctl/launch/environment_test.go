package launch

// This file tests the environment of a process.

import (
	"slices"
	"testing"
)

// TestOuterJob: a process has no number of a job around the launcher's, unless it was asked for,
// and keeps what srun takes as options.
func TestOuterJob(t *testing.T) {
	for _, name := range []string{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "SLURM_NTASKS"} {
		t.Setenv(name, "5")
	}
	n := &node{startOrder: startOrder{Once: true, Env: []raw{"PMIX_RANK=1"}}}
	env := n.environment("socket", false)
	for v, want := range map[string]bool{"PMI_RANK=5": false, "PMIX_RANK=5": false, "PMIX_RANK=1": true,
		"OMPI_COMM_WORLD_RANK=5": false,
		"SLURM_PROCID=5":         false, "SLURM_NTASKS=5": true} {
		if slices.Contains(env, v) != want {
			t.Errorf("%s is there: %v", v, !want)
		}
	}
}
