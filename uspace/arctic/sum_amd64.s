#include "textflag.h"

// func sum(start uint32, b []byte) uint32
TEXT ·sum(SB), NOSPLIT, $0-36
	MOVL  start+0(FP), AX
	MOVQ  b_base+8(FP), SI
	MOVQ  b_len+16(FP), CX

eights:
	SUBQ   $8, CX
	JLT    four
	CRC32Q (SI), AX
	ADDQ   $8, SI
	JMP    eights

four:
	TESTQ  $4, CX // the lower bits are what they were before 8 was taken too often
	JZ     two
	CRC32L (SI), AX
	ADDQ   $4, SI

two:
	TESTQ  $2, CX
	JZ     one
	CRC32W (SI), AX
	ADDQ   $2, SI

one:
	TESTQ  $1, CX
	JZ     done
	CRC32B (SI), AX

done:
	MOVL AX, ret+32(FP)
	RET
