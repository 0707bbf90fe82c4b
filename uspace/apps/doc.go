// Package apps holds the programs that come with FUNet. PingPong measures round trips, Stream
// message rates and incast, and Transfer moves blocks of memory. CMAM is the CMAM primitives
// benchmark. Flood finds messages that are lost or arrive twice under load. The matrix multiply of
// thesis appendix C comes in two forms. MatMul multiplies by panels that cards move, for modern
// processors. MatMulColumns multiplies by single columns, as the thesis measured it. Each program
// is written once, against package am and a clock that is passed in, and does not know whether the
// network under it is real.
//
// Every node of the group calls the same function with the same options; node 0 gets the figures.
// The programs start and end with a barrier, so nodes may be started one after another.
//
// Now and then they report their progress (Progress). Programs to learn from, on package funet, are
// in the folder tutorial.
//
// An app belongs to the goroutine of its endpoint. It registers handlers 0 and up or shares memory
// at addresses of its own, so one endpoint runs one app.
package apps
