// Package output prints the results of commands for people and for programs. [Show] prints one JSON
// document or a table on standard output. [Begin] says on standard error how something goes on.
// [Files] are files that are there whole or not at all.
//
// A [Report] has both forms. A command prints its errors itself, as one line ([OneLine]).
//
// Nothing here keeps state but Files and Progress; every function may be called from any goroutine.
package output
