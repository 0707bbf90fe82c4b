package launch

// This file finds the provider of libfabric on a host, and makes the variables by which programs
// over libfabric use it.
//
// The provider lies in one folder with a library to be preloaded, which adds SA_ONSTACK to the
// program's handlers of signals (uspace/ofi/onstack). Another user than the launcher's may be
// barred from that folder. The launcher then hands the folder over open, as it does with the
// program. It stays open in the agent, whose descriptors all processes of the same user may follow
// (proc_pid_fd(5)). A descriptor in the program itself would not reach the ranks that mpirun
// starts.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// ErrProvider reports a host without the provider of libfabric, or a user who may not read it.
var ErrProvider = errors.New("cannot use the provider of libfabric")

const (
	providerFile = "libfunet-fi.so"
	onStackFile  = "libfunet-onstack.so"
)

// providerFolders are where the files may lie, seen from the folder of funet: where make ofi
// builds, where make install puts them, and where the package of a distribution does.
var providerFolders = []string{".", "../lib/libfabric", "../lib/*/libfabric"}

// beside returns the folder of the provider that belongs to this program. Errors: ErrProvider.
func beside() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrProvider, err)
	}
	for _, f := range providerFolders {
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), f, providerFile)); len(found) > 0 {
			return filepath.Dir(found[0]), nil // the pattern is good
		}
	}
	return "", fmt.Errorf("%w: %s is neither beside %s nor in ../lib/libfabric; build it with `make ofi`, or install FUNet's package",
		ErrProvider, providerFile, path)
}

// readProvider returns nil if the user of this process may read the files in a folder, which is
// called name in errors. Errors: ErrProvider.
func readProvider(folder, name string) error {
	for _, file := range []string{".", providerFile, onStackFile} {
		if err := unix.Access(filepath.Join(folder, file), unix.R_OK); err != nil {
			cure := "build it with `make ofi`, or install FUNet's package"
			if errors.Is(err, fs.ErrPermission) {
				cure = "let the program's user read it (chmod a+rX)"
			}
			return fmt.Errorf("%w: reading %s: %w; %s", ErrProvider, filepath.Join(name, file), err, cure)
		}
	}
	if strings.ContainsAny(folder, ": ") {
		return fmt.Errorf("%w: its folder is %q, and loaders split names at spaces and colons; move FUNet to another folder",
			ErrProvider, folder)
	}
	return nil
}

// handOverProvider opens the folder of the provider, as the user of this process. Errors:
// ErrProvider.
func handOverProvider() (*os.File, error) {
	folder, err := beside()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: opening %s: %w", ErrProvider, folder, err)
	}
	return os.NewFile(uintptr(fd), folder), nil
}

// findProvider notes the folder of the provider for processes of this host. Errors: ErrProvider.
func (l *local) findProvider() (err error) {
	if l.provider, err = beside(); err == nil {
		err = readProvider(l.provider, l.provider)
	}
	if err != nil && l.shared != nil {
		l.provider = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), l.shared.Fd())
		name, _ := os.Readlink(l.provider) // "": unknown
		err = readProvider(l.provider, name)
	}
	return err
}

// forwarded are the variables that mpirun must pass to ranks on other hosts. It passes its own
// (OMPI_...) and no others.
var forwarded = []string{"FI_PROVIDER", "FI_PROVIDER_PATH", "LD_PRELOAD", attach.GIDVariable, attach.TokenVariable}

// withProvider adds the variables that make a program use the provider of a folder. Those that are
// there stay. Variables of Open MPI and MPICH do nothing to other programs.
func (n *node) withProvider(env map[string]string, folder string) {
	values := map[string]string{
		"FI_PROVIDER": "funet", "FI_PROVIDER_PATH": folder, "OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi",
		"OMPI_MCA_opal_common_ofi_provider_include": "funet",
		"OMPI_MCA_mtl_ofi_provider_include":         "funet",
		"OMPI_MCA_btl_ofi_provider_include":         "funet",
		"OMPI_MCA_rmaps_base_mapping_policy":        "node", // rank n on host n modulo their number
	}
	if n.Direct { // otherwise Open MPI makes one-sided operations of messages
		values["OMPI_MCA_osc"], values["OMPI_MCA_btl"] = "rdma", "ofi,self"
		// MPICH's own keys of windows are too large, and it would make messages of puts and gets.
		for _, mode := range []string{"VIRT_ADDRESS", "ALLOCATED", "PROV_KEY"} {
			values["MPIR_CVAR_CH4_OFI_ENABLE_MR_"+mode] = "1"
		}
	}
	for name, value := range values {
		if _, there := env[name]; !there {
			env[name] = value
		}
	}
	add := func(name, separator string, values ...string) {
		if env[name] != "" {
			values = append([]string{env[name]}, values...)
		}
		env[name] = strings.Join(values, separator)
	}
	add("LD_PRELOAD", ":", filepath.Join(folder, onStackFile))
	if n.Once {
		names := forwarded
		if n.OneSocket {
			names = append(names[:len(names):len(names)], attach.SocketVariable)
		}
		add("OMPI_MCA_mca_base_env_list", cmp.Or(env["OMPI_MCA_mca_base_env_list_delimiter"], ";"), names...)
	}
}
