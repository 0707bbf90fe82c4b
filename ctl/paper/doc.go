// Package paper makes the tables and figures of five papers out of modelled machines in virtual
// time, beside what the papers print. It is the program funet-paper, which funet executes for these
// commands:
//
//	funet sim cmam     Table 6.1 of the FUNet thesis (MIT 1994)
//	funet sim matmul   its Figures 6.2 to 6.5
//	funet sim rats     tables and conclusions of the Hamlyn paper (HPL-95-86)
//	funet sim ni       terms and totals of the Tokyo thesis (University of Tokyo 1997), and the
//	                   figures of Froening's thesis (University of Mannheim 2007)
//
// Each command has files with its name. It loads a profile (hwprofiles), adds up the profile's
// figures or runs programs on its machines (ctl/paper/virtual, uspace/sim), and compares the
// results with the printed figures. What the papers say in words is judged, or shown if the words
// give no limit. paper.go has what the commands share: the flags, a cell of a table, and the sheet
// that a report is written on. picture.go draws pictures, and labels.go places labels in them.
//
// Rules:
//
//   - No total is an input. A printed total is only compared with. Where a profile had to take a
//     figure from one, as the path of ULTRA, the row says so, and its kind is "derived".
//   - A wrong figure of a paper is marked, with the reason, and does not count for the worst
//     difference.
//   - The files of pictures are opened before the simulation begins.
//   - Results do not depend on the number of processors. The names of JSON documents are stable.
package paper
