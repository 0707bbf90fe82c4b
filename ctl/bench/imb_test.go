package bench

// What MPI's programs print: our own, and Intel's benchmarks as their version of 2021 prints it.

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const printedIMB = `#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part
# List of Benchmarks to run:
# PingPong
#---------------------------------------------------
# Benchmarking PingPong 
# #processes = 2 
# ( 2 additional processes waiting in MPI_Barrier)
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            8         1000         6.07         1.32
        65536          640       104.96       624.40


# All processes entering MPI_Finalize

#----------------------------------------------------------------
# Benchmarking Allreduce 
# #processes = 4 
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            8         1000        14.50        17.25        15.75

#-----------------------------------------------------------------------------
# Benchmarking Unidir_put 
# #processes = 2 
#-----------------------------------------------------------------------------
#
#    MODE: AGGREGATE 
#
       #bytes #repetitions      t[usec]   Mbytes/sec       defects
            8         1000         1.17         6.84          0.00

#
#    MODE: NON-AGGREGATE 
#
       #bytes #repetitions      t[usec]   Mbytes/sec       defects
            8          100        12.25         0.65          0.00
`

func TestParseIMB(t *testing.T) {
	want := []imbRow{{"PingPong", 8, 6.07}, {"PingPong", 65536, 104.96}, {"Allreduce", 8, 15.75},
		{"Unidir_put aggregate", 8, 1.17}, {"Unidir_put non-aggregate", 8, 12.25}}
	rows := parseIMB(printedIMB)
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	for _, row := range rows {
		if got := imbOf(row.key()); got.Benchmark != row.Benchmark || got.Bytes != row.Bytes {
			t.Errorf("the key %q is of %v", row.key(), got)
		}
	}
}

func TestAddMPI(t *testing.T) {
	found := map[string]float64{}
	for _, text := range []string{"round trip us: p50 11.250 p99 80.000\n", "a warning\n" + printedRMA,
		"allreduce us: p50 17.125 p99 1\nalltoall us: p50 10 p99 1\nbcast us: p50 8 p99 1\n", printedIMB} {
		if err := addMPI(found, text); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{"pingpong": 11.25, "put": 10.145, "get": 17.166, "add": 17.336, "allreduce": 17.125,
		"alltoall": 10, "bcast": 8, "PingPong/8 bytes": 6.07, "PingPong/65536 bytes": 104.96, "Allreduce/8 bytes": 15.75,
		"Unidir_put aggregate/8 bytes": 1.17, "Unidir_put non-aggregate/8 bytes": 12.25}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"", "round trip us: p50 0.0\n", "put us: p50 1.2.3\n", "# Benchmarking\n8 1 2\n"} {
		if err := addMPI(map[string]float64{}, text); err == nil {
			t.Errorf("%q has figures", text)
		}
	}
}

// Rule: whatever a program prints, a figure is above 0.
func TestParseAnyIMB(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"#", "Benchmarking", "PingPong", "MODE:", "#bytes", "t[usec]",
			"t_avg[usec]", "\n", "8", "-1", "0", "1e9", "NaN", "x/8"})).Draw(t, "words")
		text := ""
		for _, w := range words {
			text += w + " "
		}
		for _, row := range parseIMB(text) {
			if !(row.US > 0) || row.Benchmark == "" {
				t.Fatalf("%q has %+v", text, row)
			}
		}
	})
}
