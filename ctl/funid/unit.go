package main

// This file is `funid unit`: it prints the unit file with which systemd runs funid.

import (
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// unit is the unit file, with the paths unitProgram and unitConfig.
//
//go:embed funid.service
var unit string

// portsUnit is the unit file of the process that makes direct ports.
//
//go:embed funid-ports.service
var portsUnit string

const (
	unitProgram = "/usr/local/bin/funid"
	unitConfig  = "/etc/funet/funid.yaml"
)

func unitCommand() *cobra.Command {
	var program, config string
	var ports bool
	c := &cobra.Command{
		Use:   "unit",
		Short: "Print a unit file of systemd: funid as a user of its own, with no more than it needs",
		Example: `  funid unit > /etc/systemd/system/funid.service
  systemctl daemon-reload && systemctl enable --now funid`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := unitFor(program, config)
			if ports && err == nil {
				text = strings.Replace(portsUnit, unitProgram+" ", program+" ", 1)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().StringVar(&program, "program", unitProgram, "where funid is")
	c.Flags().StringVar(&config, "config", unitConfig, "its configuration file")
	c.Flags().BoolVar(&ports, "ports", false,
		"the unit of the process that makes direct ports, for carriage: auto or direct")
	return c
}

// unitFor returns the unit for a program and a configuration at other places.
func unitFor(program, config string) (string, error) {
	for _, path := range []string{program, config} {
		// What systemd.service(5) would take for something else is refused, not quoted.
		if !filepath.IsAbs(path) || strings.ContainsAny(path, " \t\n\"'\\\\%$;") {
			return "", errors.New("--program and --config: use absolute paths without spaces, quotes and \\ % $ ;")
		}
	}
	return strings.Replace(unit, unitProgram+" --config "+unitConfig, program+" --config "+config, 1), nil
}
