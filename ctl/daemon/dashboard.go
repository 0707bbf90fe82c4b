package daemon

// This file is the dashboard for Grafana: what the metrics say of the cards of a cluster.

import _ "embed"

// Dashboard is the JSON of a dashboard that Grafana imports. It asks for a data source of
// Prometheus that scrapes the daemons' metrics.
//
//go:embed dashboard.json
var Dashboard string
