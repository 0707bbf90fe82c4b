package main

// This file is `funid dashboard`: it prints the dashboard that Grafana imports.

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/daemon"
)

func dashboardCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "dashboard",
		Short:   "Print a dashboard for Grafana, of the metrics that funid serves (--metrics)",
		Example: "  funid dashboard > funet.json    # Dashboards, New, Import",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), daemon.Dashboard)
			return err
		},
	}
}
