// This file says how the C programs become Go: `go generate` needs clang, llvm-strip and the
// headers of Linux and libbpf; building needs none of them, because the output is committed.

package bpf

// Instruction set v3 came with Linux 5.1, before the redirect that the program relies on (5.3).
// Debian keeps asm/types.h in a folder for each architecture; a folder that is absent is ignored.
//go:generate go tool bpf2go -target bpfel,bpfeb -cc clang nic nic.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -target bpfel,bpfeb -cc clang -type funet_place guard guard.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -target bpfel,bpfeb -cc clang -type funet_hub_port -type funet_hub_router -type funet_hub_route -type funet_hub_station -type bpf_devmap_val hub hub.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
