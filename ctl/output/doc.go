// Package output prints the results of commands for people and for programs: one JSON document or a
// table on standard output ([Show]), how things go on, on standard error ([Begin]), and files that
// are there whole or not at all ([Files]).
//
// A [Report] has both forms. A command prints its errors itself, as one line ([OneLine]).
//
// Nothing here keeps state but Files and Progress; every function may be called from any goroutine.
package output
