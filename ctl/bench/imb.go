package bench

// This file reads what Intel's MPI benchmarks print.

import (
	"fmt"
	"strconv"
	"strings"
)

// imbPrograms are those of Intel's programs that run, from --imb's folder.
var imbPrograms = []string{"IMB-MPI1", "IMB-RMA"}

// imbBenchmarks are the benchmarks of each program.
var imbBenchmarks = map[string][]string{
	"IMB-MPI1": {"PingPong", "Allreduce", "Alltoall"},
	"IMB-RMA":  {"Unidir_put", "Unidir_get"},
}

// imbLengths are the lengths of messages in bytes, one a line.
const imbLengths = "8\n65536\n1048576\n"

// imbRow is a line of a table: the mean time of an operation.
type imbRow struct {
	Benchmark string // with the mode that it has, such as AGGREGATE
	Bytes     int
	US        float64
}

// key is the row's name among figures.
func (r *imbRow) key() string { return fmt.Sprintf("%s/%d bytes", r.Benchmark, r.Bytes) }

// imbOf returns what a key says; without a benchmark the figure is not Intel's.
func imbOf(key string) (r imbRow) {
	name, bytes, _ := strings.Cut(key, "/")
	if n, err := fmt.Sscanf(bytes, "%d bytes", &r.Bytes); n == 1 && err == nil {
		r.Benchmark = name
	}
	return r
}

// parseIMB reads all tables. Each stands below the name of its benchmark, and perhaps of a mode.
// Its title names the columns; the time is t[usec], or the mean of the processes' t_avg[usec].
func parseIMB(text string) (rows []imbRow) {
	var name, mode string
	at := -1 // the column of the time
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && f[0] == "#" && f[1] == "Benchmarking":
			name, mode, at = f[2], "", -1
		case len(f) == 3 && f[0] == "#" && f[1] == "MODE:":
			mode, at = " "+strings.ToLower(f[2]), -1
		case len(f) > 2 && f[0] == "#bytes":
			at = -1
			for i, title := range f {
				if title == "t[usec]" || title == "t_avg[usec]" {
					at = i
				}
			}
		case name != "" && at > 0 && at < len(f):
			bytes, err1 := strconv.Atoi(f[0])
			us, err2 := strconv.ParseFloat(f[at], 64)
			if err1 == nil && err2 == nil && us > 0 {
				rows = append(rows, imbRow{name + mode, bytes, us})
			}
		}
	}
	return rows
}
