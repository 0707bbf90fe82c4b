# What one does with FUNet: make help says. Needs Go 1.21 or later, which fetches the version that go.mod asks for (some 70 MB, once);
# most of it needs root (namespaces, AF_XDP).

GO ?= go
# Debian's and Fedora's Go fetch nothing unless they are told to.
export GOTOOLCHAIN ?= auto
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec

# Packages in which goroutines or processes share memory, and those of them that make test has. Packages am and apps have no
# goroutine, nor have their tests. Those that take longest are first, so that the others run beside them.
RACE_SHORT := ./ctl/daemon ./uspace/funi ./uspace/wait ./uspace/lead ./uspace/card ./uspace/funet ./uspace/socket
RACE := ./ctl/daemon ./ctl/funet ./ctl/paper ./ctl/bench ./uspace/funi ./uspace/attach ./uspace/rats ./uspace/rma ./uspace/socket ./uspace/funet ./uspace/wait ./uspace/lead ./uspace/card ./uspace/sim/scale ./xdp ./ctl/lab ./ctl/program ./ctl/rawxdp ./ctl/ports ./ctl/capture

# Fuzz targets as FOLDER:NAME, found in the tests, and how long each runs.
FUZZ = $(shell grep -rn '^func Fuzz' --include='*_test.go' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z]*).*|\1:\2|')
FUZZTIME ?= 30s

# How long make chaos simulates.
CHAOSTIME ?= 10m

# How long make hostile attacks the daemon.
HOSTILETIME ?= 10m

# Where make install puts things, below DESTDIR.
PREFIX ?= /usr/local

# The version of the package: the tag, or the number of commits until there is one.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//' | grep . || echo 0.0.$$(git rev-list --count HEAD 2>/dev/null || echo 0))

# What the programs say of themselves with --version.
VERSIONED := -X github.com/funet/funet/ctl/usage.version=$(VERSION)

# funet, and the programs that have some of its commands (ctl/command).
FUNET := bin/funet bin/funet-bench bin/funet-paper

.PHONY: help golang build lib ofi install deb image systemd demo test test-all check unit race mutants fuzz chaos model bench path profile hostile share qemu figures peers generate clean root tools conformance fabtests
build: $(FUNET) bin/funid

help:
	@echo "make            build bin/funet, funet-bench, funet-paper and funid"
	@echo "make ofi        build the provider for libfabric (libfabric-dev, gcc)"
	@echo "make lib        build the library for C, shared and static (gcc)"
	@echo "make demo       two hosts on this machine exchange messages (root)"
	@echo "make install    these, library, manual and so on, below PREFIX ($(PREFIX))"
	@echo "make deb        the same as a package; make image: as an image"
	@echo "make check      format and linters: some minutes at first"
	@echo "make test       check, and quick tests: ten minutes on two processors (root)"
	@echo "make test-all   check, unit and race: half an hour and more (root)"
	@echo "make unit       the tests; make race: with the race detector (root)"
	@echo "make fuzz       each fuzzer for FUZZTIME ($(FUZZTIME))"
	@echo "make chaos      swarms of seeds that nobody ran, for CHAOSTIME ($(CHAOSTIME))"
	@echo "make model      the link's handshake, checked by spin"
	@echo "make mutants    break the engine on purpose: tests must notice"
	@echo "make hostile    attack the daemon for HOSTILETIME ($(HOSTILETIME)) (root)"
	@echo "make share      what a user keeps beside attacks (root)"
	@echo "make conformance  programs of others over sockets (root)"
	@echo "make fabtests   libfabric's own tests; FABTESTS=dir: built there (root)"
	@echo "make bench      the engine's benchmarks; make profile: to build with (root)"
	@echo "make path       count the functions that a round trip executes (root)"
	@echo "make figures    table and figures of the thesis, as pictures and JSON"
	@echo "make peers      install what funet bench compares with (root)"
	@echo "make qemu       drivers of real NICs, in guests; make systemd: the unit (root)"
	@echo "make tools      install what tests run (root)"
	@echo "make generate   the eBPF objects anew; make clean: remove what was built"

# That Go is there, and can fetch the version that go.mod asks for.
golang:
	@command -v $(GO) >/dev/null || { echo "make: Go is missing; install Go 1.21 or later: https://go.dev/dl, or your distribution's golang (Debian 12: that of bookworm-backports)" >&2; exit 1; }
	@have=$$(cd / && GOTOOLCHAIN=local $(GO) version | sed -E 's/^go version (go|devel go)?([0-9]+\.[0-9]+).*/\2/'); \
	[ -z "$$have" ] || [ "$$(printf '%s\n' 1.21 "$$have" | sort -V | head -n 1)" = 1.21 ] || { \
		echo "make: Go $$have is too old: it cannot fetch Go $$(sed -n 's/^go //p' go.mod), which go.mod asks for; install Go 1.21 or later: https://go.dev/dl, or on Debian 12 golang of bookworm-backports" >&2; exit 1; }

.PHONY: $(FUNET) bin/funid
$(FUNET): golang
	@mkdir -p bin
	$(GO) build -ldflags="$(VERSIONED)" -o $@ ./ctl/$(@F)
	@chmod 755 $@ # whatever the umask: root runs it as an ordinary user, too

# Without cgo: only then can a Go program drop the capabilities of all its threads.
bin/funid: golang
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -ldflags="$(VERSIONED)" -o bin/funid ./ctl/funid

# The library for C, shared and static. It exports what funet.h declares.
lib: golang
	@command -v $${CC:-gcc} >/dev/null || { echo "make: libfunet needs a C compiler; install gcc (on Debian and Ubuntu: apt install gcc libc6-dev)" >&2; exit 1; }
	@mkdir -p bin
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -pgo=$(CURDIR)/ctl/funet/default.pgo -ldflags="-s -w -extldflags '-Wl,-soname,libfunet.so.1 -Wl,--version-script=$(CURDIR)/uspace/libfunet/libfunet.map'" -o bin/libfunet.so.1 ./uspace/libfunet
	CGO_ENABLED=1 $(GO) build -buildmode=c-archive -pgo=$(CURDIR)/ctl/funet/default.pgo -ldflags="-s -w" -o bin/libfunet.a ./uspace/libfunet
	@rm -f bin/libfunet.h bin/libfunet.so.h; ln -sf libfunet.so.1 bin/libfunet.so; chmod 755 bin/libfunet.so.1; chmod 644 bin/libfunet.a; install -m 644 uspace/libfunet/funet.h bin

# Whether there is what the provider for libfabric needs, and what to do if there is not.
LIBFABRIC = echo '\#include <rdma/providers/fi_prov.h>' | $${CC:-gcc} -E - >/dev/null 2>&1
NO_LIBFABRIC = the provider for libfabric needs a C compiler and libfabric's headers; install gcc and libfabric-dev 1.17 or later

# The provider for libfabric, and what funet run --ofi preloads beside it.
ofi: golang
	@$(LIBFABRIC) || { echo "make: $(NO_LIBFABRIC)" >&2; exit 1; }
	@mkdir -p bin
	CGO_ENABLED=1 $(GO) build -tags libfabric -buildmode=c-shared -pgo=$(CURDIR)/uspace/ofi/default.pgo -ldflags="-s -w -extldflags '-Wl,-soname,libfunet-fi.so -Wl,--version-script=$(CURDIR)/uspace/ofi/ofi.map'" -o bin/libfunet-fi.so ./uspace/ofi
	$${CC:-gcc} -O2 -shared -fPIC -fvisibility=hidden -Wl,-soname,libfunet-onstack.so -o bin/libfunet-onstack.so uspace/ofi/onstack/onstack.c
	@chmod 755 bin/libfunet-fi.so bin/libfunet-onstack.so; rm -f bin/libfunet-fi.h # cgo makes it

# Where libfabric looks for providers: its own folder for packages of a distribution.
PROVIDERS ?= $(PREFIX)/lib/libfabric

# The commands, the library, the headers for C and C++, the provider for libfabric, the unit of systemd that runs funid, what shells
# complete, the manual, and a configuration to fill in. Without libfabric's headers the provider is left out.
install: build lib
	umask 022; install -d $(DESTDIR)$(PREFIX)/{bin,include,lib/pkgconfig,lib/systemd/system,share/bash-completion/completions,share/zsh/vendor-completions,share/fish/vendor_completions.d}
	install -m 755 $(FUNET) bin/funid $(DESTDIR)$(PREFIX)/bin
	install -m 644 uspace/funi/funi.h uspace/libfunet/funet.h $(DESTDIR)$(PREFIX)/include
	install -m 755 bin/libfunet.so.1 $(DESTDIR)$(PREFIX)/lib
	install -m 644 bin/libfunet.a $(DESTDIR)$(PREFIX)/lib
	ln -sf libfunet.so.1 $(DESTDIR)$(PREFIX)/lib/libfunet.so
	umask 022; sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' uspace/libfunet/funet.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/funet.pc
	@[ -n "$(DESTDIR)" ] || ldconfig || true # so that the loader finds it
	@if $(LIBFABRIC); then $(MAKE) --no-print-directory ofi; umask 022; install -d $(DESTDIR)$(PROVIDERS); \
		install -m 644 bin/libfunet-fi.so bin/libfunet-onstack.so $(DESTDIR)$(PROVIDERS); \
	else echo "make: left out: $(NO_LIBFABRIC)" >&2; fi
	umask 022; install -d $(DESTDIR)/etc/funet
	@[ -e $(DESTDIR)/etc/funet/funid.yaml ] || install -m 644 ctl/deb/funid.yaml $(DESTDIR)/etc/funet/funid.yaml # the user's is left alone
	umask 022; bin/funid unit --program $(PREFIX)/bin/funid > $(DESTDIR)$(PREFIX)/lib/systemd/system/funid.service
	umask 022; bin/funid unit --ports --program $(PREFIX)/bin/funid > $(DESTDIR)$(PREFIX)/lib/systemd/system/funid-ports.service
	@umask 022; for c in funet funid; do \
		bin/$$c completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$c; \
		bin/$$c completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_$$c; \
		bin/$$c completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$c.fish; \
	done
	@umask 022; bin/funet man $(DESTDIR)$(PREFIX)/share/man
	@umask 022; bin/funid man $(DESTDIR)$(PREFIX)/share/man

# The same as a Debian package, bin/funet_VERSION_ARCHITECTURE.deb, with a tool that has a module of its own.
deb: build
	@stage=$$(mktemp -d); trap 'rm -rf $$stage' EXIT; umask 022; \
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) $(MAKE) --no-print-directory -s install DESTDIR=$$stage PREFIX=/usr \
		PROVIDERS=/usr/lib/$$($${CC:-gcc} -print-multiarch | grep . || echo .)/libfabric; \
	install -D -m 644 LICENSE $$stage/usr/share/doc/funet/copyright; \
	gzip -9n $$stage/usr/share/man/man*/*; \
	rm -f bin/funet_*.deb; \
	DEB_STAGE=$$stage DEB_VERSION=$(VERSION) DEB_ARCH=$$($(GO) env GOARCH) \
		$(GO) -C ctl/deb tool nfpm package --packager deb --target $(CURDIR)/bin

# The image of the programs (ctl/image), by what there is to build one, named IMAGE. It compiles in an image of
# golang; with PROGRAMS=outside the programs are compiled here, and no registry is needed.
IMAGE ?= funet:$(VERSION)
PROGRAMS ?= inside
image:
	@case "$(PROGRAMS)" in \
	inside) mkdir -p bin/image;; \
	outside) mkdir -p bin/image; CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w $(VERSIONED)" -o bin/image/ $(FUNET:bin/%=./ctl/%) ./ctl/funid; chmod 755 bin/image/*;; \
	*) echo "make: PROGRAMS=$(PROGRAMS): use inside or outside" >&2; exit 1;; \
	esac; \
	why=; for with in docker podman buildah; do \
		command -v $$with >/dev/null || continue; \
		if ! said=$$($$with info 2>&1 >/dev/null); then why="$$why; $$with is there, but: $$(echo "$$said" | tail -n 1)"; continue; fi; \
		echo "$$with build of $(IMAGE)"; \
		exec $$with build --file ctl/image/Containerfile --build-arg VERSION=$(VERSION) --target $(PROGRAMS) --tag "$(IMAGE)" .; \
	done; \
	echo "make: an image needs docker, podman or buildah; install one of them (on Debian and Ubuntu: apt install buildah)$$why" >&2; exit 1

# funid's unit under systemd, booted in namespaces of its own: as make install puts it there, and as
# the package does.
systemd: root build deb
	@command -v systemd-nspawn >/dev/null && command -v curl >/dev/null || { \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd systemd-container dbus iproute2 curl; }
	tests/systemd/try.sh
	tests/systemd/try.sh package

.PHONY: bin/share
bin/share:
	@mkdir -p bin
	$(GO) build -o bin/share ./tests/share

.PHONY: bin/rank
bin/rank:
	$${CC:-gcc} -O2 -Wall -Wextra -Wno-unused-function -o bin/rank uspace/ofi/testdata/rank.c -lfabric
	@chmod 755 bin/rank # whatever the umask: attackers are ordinary users

# FUNet on drivers of real NICs, in guests under QEMU: a table on stdout. QEMU=short for two of the NICs,
# QEMU=--ci for these in continuous integration, which says so where it cannot run,
# QEMU="--nics igb --json" and the like for others (bin/qemu --help). QEMUCACHE is where QEMU and
# kernels are kept, which are fetched with apt, and not installed. It needs no root.
qemu:
	@mkdir -p bin/guest
	@CGO_ENABLED=0 $(GO) build -ldflags="-s -w" -o bin/qemu ./tests/qemu
	@CGO_ENABLED=0 $(GO) build -ldflags="-s -w" -o bin/guest ./ctl/funet ./ctl/funid
	@bin/qemu $(if $(filter short,$(QEMU)),--short,$(QEMU))

root:
	@[ "$$(id -u)" = 0 ] || { echo "make: network namespaces and AF_XDP need root; run it with sudo" >&2; exit 1; }

# Two hosts on this machine, ping-pong and matrix multiply between them.
demo: root build
	@echo "Two hosts, each a network namespace, joined by a veth pair; each node is a process on AF_XDP."
	@echo
	@bin/funet pingpong --lab 2
	@echo
	@bin/funet matmul --lab 2 --size 512
	@echo
	@echo "The same through a daemon on each host, by an ordinary user's processes, four on two processors:"
	@echo
	@cd / && $(CURDIR)/bin/funet run -n 2 --lab -- funet pingpong --exchanges 50000
	@echo
	@echo "By an ordinary user's processes, too, but with cards of their own on direct ports of the daemons:"
	@echo
	@cd / && $(CURDIR)/bin/funet pingpong --lab 2 --card direct
	@echo
	@echo "Done; nothing is left behind."

# Every test of test-all that takes little, and of others a short form (-short). What is left out is counted (tests/long). It does
# without the profiles with which the programs ship, for which all packages would be compiled twice again.
test: SHORT := -short
test: export GOFLAGS := $(GOFLAGS) -pgo=off
test: root tools check unit race

test-all: root tools check unit race

# What tests run: tshark decodes what `funet capture` wrote, with the dissector that it prints; man shows the pages that make install wrote;
# valgrind runs programs in C; python3 loads the library for C; programs of libfabric and Open MPI run over the provider.
TOOLS := tshark man valgrind gcc python3 fi_info mpicc mpirun etcd
TOOL_PACKAGES := tshark man-db valgrind gcc libc6-dev python3 libfabric-bin libfabric-dev openmpi-bin libopenmpi-dev etcd-server
tools:
	@all=1; for t in $(TOOLS); do command -v $$t >/dev/null || all=; done; [ "$$all" ] && [ -e /usr/include/rdma/fabric.h ] || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "make: install $(TOOL_PACKAGES) first (or run as root on Debian or Ubuntu)" >&2; exit 1; }; \
		here=$$(command -v etcd); \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(TOOL_PACKAGES); \
		[ "$$here" ] || [ ! -d /run/systemd/system ] || systemctl disable -q --now etcd; } # the package starts a service that no test wants

# Says what runs, and every 15 seconds that it still does.
TOLD = told() { echo "$$*" >&2; (trap 'kill $$!' TERM; for ((s = 15;; s += 15)); do sleep 15 & wait $$!; echo "  $$1 $$2: $$s s" >&2; done) & local clock=$$!; trap "kill $$clock" EXIT; "$$@"; }; told

# Without cgo, so that packages are compiled once for all of that.
check unit mutants: export CGO_ENABLED := 0

# The linters come from a module of their own (.ci), and need no packages that are optimised by a profile.
check: export GOFLAGS += -pgo=off
check: golang
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "not formatted with gofmt: $$out" >&2; exit 1; }
	@$(TOLD) $(GO) tool -modfile=.ci/go.mod golangci-lint run --allow-parallel-runners -c .ci/golangci.yaml
	@$(TOLD) $(GO) run ./tests/shape --only comment_lines_over_100_columns

# How many packages and tests at once. Many wait for what takes its time, such as a peer that is to be given up.
ATONCE = -p 3 -parallel 4

# Unit, eBPF (BPF_PROG_TEST_RUN) and namespace tests with real processes. Some run what is built as ordinary users, who must
# be able to execute it whatever root's umask is. The programs are built once for all of them. The packages that take longest are
# first, so that the others run beside them.
unit: golang
	@umask 022; programs=$$(mktemp -d); trap 'rm -rf $$programs' EXIT; chmod 755 $$programs; \
	$(GO) build -o $$programs/ $(FUNET:bin/%=./ctl/%) ./ctl/funid; \
	FUNET_BINARY=$$programs/funet $(GO) test $(SHORT) -vet=off -json -count=1 $(ATONCE) -timeout 60m ./tests ./ctl/daemon ./tests/hostile ./... | $(GO) run ./tests/gate $(SHORT)

# The race detector looks for goroutines that share memory. There are fewer seeds (-short), which unit has all run, but no test
# is left out unless make test runs it, and those that simulate for long in one goroutine: Table 6.1 of the thesis, turns of gangs.
# It does without the profiles with which the programs ship, for which all packages would be compiled once more.
race: export GOFLAGS += -pgo=off
race: golang
	@umask 022; $(if $(SHORT),,export FUNET_TESTS_ALL=1;) \
	$(GO) test -race -short -skip '^(TestCMAMTable|TestStatements|TestCauses|TestRules|TestSixteenHostsMeet|TestGangs)$$' -vet=off -json -count=1 $(ATONCE) -timeout 40m $(if $(SHORT),$(RACE_SHORT),$(RACE)) | $(GO) run ./tests/gate $(SHORT)

# What stands on package socket, with the field's own programs over it: the tests of net.Conn that the Go project has for all, 20 times and
# under the race detector; gRPC's benchmark beside TCP, HTTP under a load tool, QUIC. It has a module of its own. Ratios are printed as JSON.
conformance: root
	umask 022; cd tests/conformance; $(GO) vet . && $(GO) test -race -run TestConn -count=20 -timeout 40m . && $(GO) test -skip TestConn -count=1 -timeout 20m -v .

# Break the engine on purpose, rule by rule: the tests must notice.
mutants:
	@$(GO) run ./tests/mutants

fuzz:
	@for t in $(FUZZ); do \
		echo "== $$t for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$${t#*:}$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$${t%:*}"; \
	done

# Seeds of a swarm that nobody has run, from a number of the system's random source on, 200 at a time for CHAOSTIME. It
# names the seeds first and goes on after failures, each of which says what to run again.
chaos: bin/funet
	@first=$$(od -An -N6 -tu8 /dev/urandom | tr -d ' '); failed=0; \
	sleep $(CHAOSTIME) & timer=$$!; trap 'kill $$timer 2>/dev/null || true' EXIT; trap 'exit 130' INT TERM; \
	while last=$$((first + 199)); \
		echo "== funet sim chaos --shape swarm --seeds $$first..$$last"; \
		bin/funet sim chaos --shape swarm --seeds $$first..$$last || failed=1; \
		kill -0 $$timer 2>/dev/null; do first=$$((last + 1)); done; \
	wait $$timer; exit $$failed

# The link's handshake as a model that spin checks, and mistakes in it that spin finds.
model:
	@command -v spin >/dev/null && command -v gcc >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "make: install spin and gcc first (or run as root on Debian or Ubuntu)" >&2; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends spin gcc libc6-dev; }
	@tests/model/check.sh

# libfabric's own tests over the provider, on two hosts. FABTESTS is a built tree of fabtests 1.17.0, which is not of this
# repository. FABTESTSFLAGS="--sets unit,short" and the like (bin/fabtests --help). All of it takes half an hour.
fabtests: root ofi bin/funid
	@[ -e "$(FABTESTS)/scripts/runfabtests.sh" ] || { echo "make: FABTESTS=$(FABTESTS): use the folder of fabtests 1.17.0, built there (./autogen.sh && ./configure && make)" >&2; exit 1; }
	@$(GO) build -o bin/fabtests ./tests/fabtests
	@exec bin/fabtests $(FABTESTSFLAGS) "$(FABTESTS)"

# What the engine takes, built with the profile that funet ships with: BENCH names the benchmarks.
BENCH ?= PingPongStep
BENCHPACKAGE ?= ./uspace/engine
BENCHCOUNT ?= 7
bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -count $(BENCHCOUNT) -pgo=$(CURDIR)/ctl/funet/default.pgo -timeout 20m $(BENCHPACKAGE)

# The functions that a round trip of active messages executes, by package. It fails beyond 160.
# PARTS=--list names them, PARTS=--json prints one document.
path: root
	@$(GO) run ./tests/path $(PARTS)

# The profiles that funet, funid and the provider for libfabric are compiled with, anew: where they spend their time, sampled on labs. After
# changes of what a message meets; on a machine that does nothing else. PART=10 takes a tenth of the time.
profile: root
	GO=$(GO) tests/sampled/profile.sh

# Clients that misbehave, beside others' verified traffic, and 200 kills; with figures.
hostile: root
	umask 022; HOSTILETIME=$(HOSTILETIME) $(GO) test -count=1 -v -timeout 60m ./tests/hostile

# What a user keeps of his network beside another's attacks, as one JSON document on stdout
# (bin/share prints a table): some five minutes. SHARE=--rounds=2 and the like.
share: root
	@$(MAKE) --no-print-directory build bin/share >&2
	@rm -f bin/rank; if $(LIBFABRIC); then $(MAKE) --no-print-directory ofi bin/rank >&2; \
		else echo "make: no attacks by ranks: $(NO_LIBFABRIC)" >&2; fi
	@bin/share --json $(SHARE)

# Table 6.1 and Figures 6.2 to 6.5 of the thesis, and others, as pictures and as JSON, into figures/; each is
# simulated once, on all processors. REAL=FILE: what `funet cmam --json` has measured is in the table's.
figures: bin/funet bin/funet-paper
	@mkdir -p figures
	@bin/funet sim cmam --profile sbus-arctic-1994 $(if $(REAL),--real $(REAL)) --plot figures/table-6.1.svg --plot figures/table-6.1.png --json > figures/table-6.1.json
	@echo "figures/table-6.1.svg figures/table-6.1.png figures/table-6.1.json"
	@bin/funet sim rats --plot figures/hamlyn.svg --plot figures/hamlyn.png --json > figures/hamlyn.json
	@echo "figures/hamlyn.svg figures/hamlyn.png figures/hamlyn.json"
	@bin/funet sim rats --profile hamlyn-statemachine --plot figures/hamlyn-statemachine.svg --plot figures/hamlyn-statemachine.png --json > figures/hamlyn-statemachine.json
	@echo "figures/hamlyn-statemachine.svg figures/hamlyn-statemachine.png figures/hamlyn-statemachine.json"
	@bin/funet sim ni --profile virt-ni --plot figures/issue.svg --plot figures/issue.png --json > figures/issue.json
	@echo "figures/issue.svg figures/issue.png figures/issue.json"
	@for f in 6.2 6.3 6.4 6.5; do \
		bin/funet sim matmul --figure $$f --plot figures/$$f.svg --plot figures/$$f.png --json > figures/$$f.json; \
		echo "figures/$$f.svg figures/$$f.png figures/$$f.json"; \
	done

# What `funet bench` compares with, as Debian and Ubuntu package it.
peers: root
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y sockperf ucx-utils libfabric-bin libfabric-dev openmpi-bin libopenmpi-dev gcc iperf3

# Rebuild the committed eBPF objects.
generate:
	@command -v clang >/dev/null && command -v llvm-strip >/dev/null && [ -e /usr/include/bpf/bpf_helpers.h ] || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "make: install clang, llvm and libbpf-dev first (or run as root on Debian or Ubuntu)" >&2; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq clang llvm libbpf-dev linux-libc-dev; }
	$(GO) generate ./bpf/...

clean:
	rm -rf bin figures
