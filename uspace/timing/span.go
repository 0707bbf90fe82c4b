package timing

// This file is times that grow with what is moved.

import "time"

// Span is a time in picoseconds: Base, and DataByte and MetadataByte for each byte of data and
// metadata. Picoseconds, because an instruction of HPL-95-86 takes 10.58 ns, and many of them would
// add up to a wrong time in nanoseconds. A Span and what Of makes of it fit in an int64 as long as
// nothing takes a day.
type Span struct{ Base, DataByte, MetadataByte int64 }

// Of returns the picoseconds for so many bytes of data and metadata.
func (s Span) Of(data, metadata int) int64 {
	return s.Base + int64(data)*s.DataByte + int64(metadata)*s.MetadataByte
}

// Duration is Of in nanoseconds, to the nearest and from half of one upwards.
func (s Span) Duration(data, metadata int) time.Duration {
	return time.Duration((s.Of(data, metadata) + picosecond/2) / picosecond)
}

// picosecond is how many of them a nanosecond has.
const picosecond = 1000
