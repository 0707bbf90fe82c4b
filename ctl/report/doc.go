// Package report has the documents that funid sends as JSON: its status, its traffic, and the
// administrator's commands with their answers. Package daemon fills them in; commands such as
// `funet status`, `top` and `doctor` read and print them without linking the daemon.
//
// The names in the documents are stable: programs of others read them, too (`--json`). A field that
// an older daemon does not send has its zero value.
package report
