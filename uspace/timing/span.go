package timing

// This file has times that grow with the number of bytes moved.

import "time"

// Span is a time in picoseconds: Base, and DataByte and MetadataByte for each byte of data and
// metadata. An instruction of HPL-95-86 takes 10.58 ns, and many of them would add up to a wrong
// time in nanoseconds. A Span and the results of Of fit in an int64 as long as nothing takes a day.
type Span struct{ Base, DataByte, MetadataByte int64 }

// Of returns the time in picoseconds for the given bytes of data and metadata.
func (s Span) Of(data, metadata int) int64 {
	return s.Base + int64(data)*s.DataByte + int64(metadata)*s.MetadataByte
}

// Duration is Of rounded to the nearest nanosecond, halves upwards.
func (s Span) Duration(data, metadata int) time.Duration {
	return time.Duration((s.Of(data, metadata) + picosecond/2) / picosecond)
}

// picosecond is the number of picoseconds in a nanosecond.
const picosecond = 1000
