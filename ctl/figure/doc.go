// Package figure is `funet sim matmul`: Figures 6.2 to 6.5 of the thesis, from matrix products on
// modelled machines in virtual time.
//
// Each point of a figure is a world of its own (uspace/sim). The points run on as many goroutines
// as there are processors; their results do not depend on the order. They make three curves
// (simulate.go), and claims.go judges which claims of the thesis hold. The result is a table, a
// JSON document, and pictures (picture.go, plot.go). The files of pictures are opened before the
// simulation begins.
package figure
