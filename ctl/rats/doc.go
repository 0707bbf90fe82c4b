// Package rats is `funet sim rats`: the tables of the Hamlyn paper (HPL-95-86), computed from the
// steps in its profile, and the conclusions of its text.
//
// The journey of a figure: profile hamlyn has the paper's counts. They are instructions of each
// function of the library Rats, cycles of each part of the interface card's microcode, and the bus.
// model.go adds up the steps on the critical path, overlapped where the paper says so. table.go
// compares each sum with the total that the paper printed (printed.csv), and claims.go with the
// conclusions in words. curves.go has the same sums by size, and picture.go draws them.
//
// Rules:
//
//   - No total is an input: printed.csv is only compared with.
//   - The paper measured none of its tables end to end: 1 and 2 count compiled code, 3 to 5 a
//     simulator's cycles. So the sums here are of steps, too. For tables 3 to 5 the engine also
//     sends the same messages in virtual time (traffic.go). That uses no sum, only each unit's own
//     time. `funet rats` measures round trips on a machine of these steps, library included, in
//     virtual and in real time (real.go).
//   - A wrong total of the paper is marked, with the reason; such cells do not count for the worst
//     difference.
package rats
