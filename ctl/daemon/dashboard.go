package daemon

// This file holds the dashboard for Grafana, which shows the metrics of a cluster's cards.

import _ "embed"

// Dashboard is the JSON of a dashboard that Grafana imports. It needs a Prometheus data source that
// scrapes the daemons' metrics.
//
//go:embed dashboard.json
var Dashboard string
