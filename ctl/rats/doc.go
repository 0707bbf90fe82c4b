// Package rats is `funet sim rats`: the tables of the Hamlyn paper (HPL-95-86) out of the steps
// that its profile has, and what its text says of them.
//
// The journey of a figure. Profile hamlyn has what the paper counted: instructions of each function
// of the library Rats, cycles of each part of the interface card's microcode, and the bus. model.go
// adds those up that somebody waits for, overlapped where the paper says so; table.go puts each sum
// beside the total that the paper printed (printed.csv), and claims.go beside what it says in
// words. curves.go has the same sums by size, and picture.go draws them.
//
// Rules:
//
//   - No total is an input: printed.csv is only compared with.
//   - The paper measured none of its tables end to end: 1 and 2 count compiled code, 3 to 5 a
//     simulator's cycles. So the sums are of steps here, too. Beside those of 3 to 5 stands what
//     the same messages take that the engine sends in virtual time (traffic.go): no sum is in that,
//     only each unit's own time. What round trips take on a machine of these steps, library
//     included, in virtual and in real time, is `funet rats` (real.go).
//   - A total that the paper has wrong is marked, and says what is wrong with it; such cells do not
//     count for the worst.
package rats
