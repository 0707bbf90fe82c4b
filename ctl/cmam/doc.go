// Package cmam compares the benchmark of the CMAM primitives (thesis 6.2.1) with Table 6.1 of the
// thesis: `funet sim cmam` on 32 modelled machines in virtual time, `funet cmam` on a group in real
// time.
//
// Both run apps.CMAM, compare its rows with those of table61.csv, in the order of the table, and
// print them with the difference in cycles. The simulation also explains why rows differ
// (explain.go).
//
// A row of the table that was not measured is an error. The names of the JSON document are stable.
package cmam
