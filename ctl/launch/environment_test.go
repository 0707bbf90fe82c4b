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
	env := n.environment("socket", false, "")
	for v, want := range map[string]bool{"PMI_RANK=5": false, "PMIX_RANK=5": false, "PMIX_RANK=1": true,
		"OMPI_COMM_WORLD_RANK=5": false,
		"SLURM_PROCID=5":         false, "SLURM_NTASKS=5": true} {
		if slices.Contains(env, v) != want {
			t.Errorf("%s is there: %v", v, !want)
		}
	}
}

// TestOFI: variables for the provider give way to the user's, or are added to lists of the user's.
// Open MPI passes on what ranks need.
func TestOFI(t *testing.T) {
	n := &node{startOrder: startOrder{OFI: true, Once: true, Env: []raw{"FI_PROVIDER=tcp", "LD_PRELOAD=a.so",
		"OMPI_MCA_mca_base_env_list=A,B", "OMPI_MCA_mca_base_env_list_delimiter=,", "OMPI_MCA_pml="}}}
	const list = "OMPI_MCA_mca_base_env_list=A,B,FI_PROVIDER,FI_PROVIDER_PATH,LD_PRELOAD,FUNET_GID,FUNET_TOKEN"
	for _, c := range []struct {
		direct, one bool
		want        map[string]bool
	}{
		{false, false, map[string]bool{"FI_PROVIDER=tcp": true, "FI_PROVIDER_PATH=/p": true, "OMPI_MCA_pml=": true,
			"OMPI_MCA_mtl=ofi": true, "LD_PRELOAD=a.so:/p/libfunet-onstack.so": true, list: true, "OMPI_MCA_osc=rdma": false,
			"MPIR_CVAR_CH4_OFI_ENABLE_MR_PROV_KEY=1": false}},
		{true, true, map[string]bool{"OMPI_MCA_osc=rdma": true, "OMPI_MCA_btl=ofi,self": true, list + ",FUNET_SOCKET": true,
			"MPIR_CVAR_CH4_OFI_ENABLE_MR_VIRT_ADDRESS=1": true, "MPIR_CVAR_CH4_OFI_ENABLE_MR_ALLOCATED=1": true,
			"MPIR_CVAR_CH4_OFI_ENABLE_MR_PROV_KEY=1": true}},
	} {
		n.Direct, n.OneSocket = c.direct, c.one
		env := n.environment("socket", false, "/p")
		for v, there := range c.want {
			if slices.Contains(env, v) != there {
				t.Errorf("%s is there: %v; in %q", v, !there, env)
			}
		}
	}
}
