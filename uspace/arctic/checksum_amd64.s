#include "textflag.h"

// func fold(start uint32, b []byte, by *[4]uint64) uint32
//
// Z0 to Z3 hold 256 bytes. Each round moves every 16 of them on by 256 bytes, the lower
// half times by[0], the upper times by[1], and adds the next 256. In the end by[2] and
// by[3] move 64 bytes on to the next 64.
TEXT ·fold(SB), NOSPLIT, $64-44
	MOVL start+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ by+32(FP), DX
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD AX, X4              // clears the rest of Z4
	VPXORQ Z4, Z0, Z0
	VBROADCASTI32X4 (DX), Z5
	JMP  more

round:
	VPCLMULQDQ $0x00, Z5, Z0, Z6
	VPCLMULQDQ $0x00, Z5, Z1, Z7
	VPCLMULQDQ $0x00, Z5, Z2, Z8
	VPCLMULQDQ $0x00, Z5, Z3, Z9
	VPCLMULQDQ $0x11, Z5, Z0, Z0
	VPCLMULQDQ $0x11, Z5, Z1, Z1
	VPCLMULQDQ $0x11, Z5, Z2, Z2
	VPCLMULQDQ $0x11, Z5, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z6, Z0 // three-way exclusive or
	VPTERNLOGQ $0x96, 64(SI), Z7, Z1
	VPTERNLOGQ $0x96, 128(SI), Z8, Z2
	VPTERNLOGQ $0x96, 192(SI), Z9, Z3

more:
	ADDQ $256, SI
	SUBQ $256, CX
	JNZ  round

	VBROADCASTI32X4 16(DX), Z5
	VPCLMULQDQ $0x00, Z5, Z0, Z6
	VPCLMULQDQ $0x11, Z5, Z0, Z0
	VPTERNLOGQ $0x96, Z0, Z6, Z1
	VPCLMULQDQ $0x00, Z5, Z1, Z6
	VPCLMULQDQ $0x11, Z5, Z1, Z1
	VPTERNLOGQ $0x96, Z1, Z6, Z2
	VPCLMULQDQ $0x00, Z5, Z2, Z6
	VPCLMULQDQ $0x11, Z5, Z2, Z2
	VPTERNLOGQ $0x96, Z2, Z6, Z3
	VMOVDQU64 Z3, rest-64(SP)
	VZEROUPPER
	XORL AX, AX
	CRC32Q rest-64(SP), AX
	CRC32Q rest-56(SP), AX
	CRC32Q rest-48(SP), AX
	CRC32Q rest-40(SP), AX
	CRC32Q rest-32(SP), AX
	CRC32Q rest-24(SP), AX
	CRC32Q rest-16(SP), AX
	CRC32Q rest-8(SP), AX
	MOVL AX, ret+40(FP)
	RET
