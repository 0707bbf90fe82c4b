package bench

// This file is `funet bench ofi`: libfabric's own tests over the provider funet, and over others.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/program"
)

// ofi compares round trips, and writes of blocks, by libfabric's tests over several providers with
// FUNet's own.
type ofi struct {
	exchanges int
	fabtests  string // the folder of fi_rma_bw; "": that is not run
}

// ofiProviders are the providers of the system, with the names of their contenders.
var ofiProviders = []struct{ name, provider string }{{"tcp_rxm", "tcp;ofi_rxm"}, {"udp_rxd", "udp;ofi_rxd"}}

func (o *ofi) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "ofi",
		Short: "Compare libfabric's tests over FUNet's provider with others and FUNet's own",
		Long: `Compare round trips of 64 bytes by libfabric's fi_pingpong over FUNet's provider,
tcp;ofi_rxm and udp;ofi_rxd with FUNet's ping-pong, all between two hosts. FUNet's are
processes of an ordinary user on direct ports. The tool prints means, so all figures are
means. With --fabtests its fi_rma_bw writes blocks of 1 MiB over the providers, beside
FUNet's own writes. Figures are medians over the rounds, and ratios medians of those in
each round.`,
		Example: "  funet bench ofi --lab 2 --json\n  funet bench ofi --lab 2 --fabtests ~/fabtests/benchmarks",
		PreRunE: func(*cobra.Command, []string) error {
			if what := absent([]tool{{"fi_pingpong", "libfabric-bin"}, taskset}); what != "" {
				return errors.New(what)
			}
			if _, err := os.Stat(filepath.Join(o.fabtests, "fi_rma_bw")); o.fabtests != "" && err != nil {
				return fmt.Errorf("--fabtests: %w; give the folder of fi_rma_bw", err)
			}
			return nil
		},
	}
	f.number(c, &o.exchanges, "exchanges", exchangeLimits, "round trips in each run; a hundredth of FUNet's own blocks")
	c.Flags().StringVar(&o.fabtests, "fabtests", "", "folder of fabtests' fi_rma_bw, to measure writes of blocks")
	return f.register(c, 2, 2, 2)
}

func (o *ofi) enter(ctx context.Context, m *match) error {
	m.what, m.unit, m.deadline = "compare libfabric's providers", "us, Gbit/s", patient(o.exchanges)
	if err := m.fill(); err != nil {
		return err
	}
	m.theirs("funet_direct", func(ctx context.Context) (float64, error) {
		r, err := program.RunDirect[program.PingPongResult](ctx, &m.f.Flags, m.lab, 2, 2, "pingpong",
			pingPong(o.exchanges).Arguments())
		if err != nil {
			return 0, err
		}
		m.attach, m.bind = r[0].XDPMode, r[0].BindMode
		return r[0].Mean, nil
	})
	trip := func(text string, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		s, err := parsePingpong(text)
		return s.P50, err
	}
	m.theirs("funet", func(ctx context.Context) (float64, error) {
		return trip(m.onProvider(ctx, pingpongOver("funet", o.exchanges), "-B %[1]d", "-P %[1]d 127.0.0.1"))
	})
	for _, p := range ofiProviders {
		m.theirs(p.name, func(ctx context.Context) (float64, error) {
			return trip(m.fabric(ctx, pingpongOver(p.provider, o.exchanges)))
		})
	}
	if o.fabtests != "" {
		return o.enterBlocks(m)
	}
	return ctx.Err()
}

// enterBlocks enters writes of blocks.
func (o *ofi) enterBlocks(m *match) error {
	tool := filepath.Join(m.dir, "fi_rma_bw")
	if err := os.Chmod(m.dir, 0o755); err != nil { // an ordinary user runs it
		return err
	}
	if err := copyFile(tool, filepath.Join(o.fabtests, "fi_rma_bw")); err != nil {
		return err
	}
	rate := func(text string, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		return parseFabtests(text)
	}
	m.theirs("funet_direct_put_1m", func(ctx context.Context) (float64, error) {
		n, err := program.RunDirect[node](ctx, &m.f.Flags, m.lab, 2, 2, program.RMAProgram, program.RMAOptions{
			Do: program.RMABulk, Block: rmaBlock, Count: max(o.exchanges/100, 2*rmaDepth)}.Arguments())
		if err != nil {
			return 0, err
		}
		return goodput(n), nil
	})
	m.theirs("funet_put_1m", func(ctx context.Context) (float64, error) {
		return rate(m.onProvider(ctx, blocksOver(tool, "funet", "write"), "-E=%d", "-E=%d 127.0.0.1"))
	})
	m.theirs("tcp_rxm_put_1m", func(ctx context.Context) (float64, error) {
		return rate(m.fabric(ctx, blocksOver(tool, "tcp;ofi_rxm", "write")))
	})
	return nil
}

// onProvider runs one of libfabric's tests over FUNet's provider, and returns what it prints. Two
// processes of an ordinary user have direct ports on both hosts; node 0 is the server. They find
// each other by a TCP port, with the arguments of each.
func (m *match) onProvider(ctx context.Context, argv []string, server, client string) (text string, err error) {
	user, err := launch.Ordinary()
	if err != nil {
		return "", err
	}
	port := m.newPort()
	arguments := func(format string) string { return fmt.Sprintf(format, port) }
	// The client comes when the server listens (bound).
	script := fmt.Sprintf(`[ "$FUNET_NODE" = 0 ] && exec taskset -c 0 "$@" %s
until cat /proc/net/tcp /proc/net/tcp6 | grep -q ":%04X .* 0A "; do :; done
exec taskset -c 1 "$@" %s`, arguments(server), port, arguments(client))
	shell, err := exec.LookPath("sh")
	if err != nil {
		return "", err
	}
	err = program.WithDaemons(m.lab, m.f.DirectPorts(), func(sockets []string) error {
		text, err = program.Printed(ctx, launch.Options{Nodes: 2, Cards: launch.DirectCards, Sockets: sockets, User: user,
			OFI: true, Label: true, Program: shell, Args: append([]string{"-c", script, "sh"}, argv...)})
		return err
	})
	return text, err
}

func (o *ofi) report(m *match) (r report, err error) {
	r.with(figure{"funet_rtt_mean_us", m.median("funet")}, figure{"funet_direct_rtt_mean_us", m.median("funet_direct")})
	r.print("libfabric's tests, medians of %d rounds; XDP %s, %s\n", m.rounds, m.attach, m.bind)
	line := func(title, unit string, ours, theirs string) {
		r.print("%-28s %9.2f %-6s ratio of funet's %.3f (%s)\n", title, m.median(theirs), unit, m.ratio(ours, theirs),
			ratios3(m.ratios(ours, theirs)))
	}
	r.print("%-28s %9.2f us\n", "64 bytes over funet", m.median("funet"))
	line("FUNet's own ping-pong", "us", "funet", "funet_direct")
	r.with(figure{"ratio_to_funet_direct", m.ratio("funet", "funet_direct")})
	for _, p := range ofiProviders {
		line("over "+p.provider, "us", "funet", p.name)
		r.with(figure{p.name + "_rtt_mean_us", m.median(p.name)},
			figure{"ratio_to_" + p.name, m.ratio("funet", p.name)})
	}
	if o.fabtests != "" {
		r.print("%-28s %9.2f Gbit/s\n", "1 MiB written over funet", m.median("funet_put_1m"))
		line("FUNet's own writes", "Gbit/s", "funet_put_1m", "funet_direct_put_1m")
		line("over tcp;ofi_rxm", "Gbit/s", "funet_put_1m", "tcp_rxm_put_1m")
		for _, name := range []string{"funet", "funet_direct", "tcp_rxm"} {
			r.with(figure{name + "_put_1m_gbit_per_s", m.median(name + "_put_1m")})
		}
		r.with(figure{"put_1m_ratio_to_funet_direct", m.ratio("funet_put_1m", "funet_direct_put_1m")},
			figure{"put_1m_ratio_to_tcp_rxm", m.ratio("funet_put_1m", "tcp_rxm_put_1m")})
	}
	r.with(figure{"rounds", m.rounds}, figure{"exchanges", o.exchanges}, figure{"xdp_mode", m.attach},
		figure{"bind_mode", m.bind})
	return r, nil
}
