// Package output is what people and programs see of a command: one JSON document or a table on
// standard output ([Show]), progress on a terminal that is standard error, and files that are there
// whole or not at all ([Files]).
//
// What was found is a [Report], which has both forms. Errors are the command's own matter; it prints
// them as one line ([OneLine]).
//
// Nothing here keeps state but Files; every function may be called from any goroutine.
package output
