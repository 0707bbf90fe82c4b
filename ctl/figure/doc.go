// Package figure is `funet sim matmul`: Figures 6.2 to 6.5 of the thesis, from matrix products on
// modelled machines in virtual time.
//
// Each point of a figure is a world of its own (uspace/sim), on as many goroutines as there are
// processors; what comes out does not depend on which runs when. The points make three curves
// (simulate.go), and claims.go says which claims of the thesis hold. The result is a table, a JSON
// document, and pictures (picture.go, plot.go), whose files are tried before the simulation begins.
package figure
