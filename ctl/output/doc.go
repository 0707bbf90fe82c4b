// Package output prints the results of commands for people and for programs. [Show] prints one JSON
// document or a table on standard output. [Begin] reports progress on standard error. [Files] are
// files that are written as a whole or not at all.
//
// A [Report] has both forms. A command prints its errors itself, as one line ([OneLine]).
//
// Only Files and Progress keep state. Every function may be called from any goroutine.
package output
