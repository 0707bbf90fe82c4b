#include "textflag.h"

// What fold and foldCopy have in common: SI is the next byte to read, CX how many are left,
// DX the factors. Z0 to Z3 hold 256 bytes. Each round moves every 16 of them on by 256 bytes,
// the lower half times by[0], the upper times by[1], and adds the next 256.
#define ROUND \
	VPCLMULQDQ $0x00, Z5, Z0, Z6; \
	VPCLMULQDQ $0x00, Z5, Z1, Z7; \
	VPCLMULQDQ $0x00, Z5, Z2, Z8; \
	VPCLMULQDQ $0x00, Z5, Z3, Z9; \
	VPCLMULQDQ $0x11, Z5, Z0, Z0; \
	VPCLMULQDQ $0x11, Z5, Z1, Z1; \
	VPCLMULQDQ $0x11, Z5, Z2, Z2; \
	VPCLMULQDQ $0x11, Z5, Z3, Z3; \
	VPTERNLOGQ $0x96, Z10, Z6, Z0; \ // three-way exclusive or
	VPTERNLOGQ $0x96, Z11, Z7, Z1; \
	VPTERNLOGQ $0x96, Z12, Z8, Z2; \
	VPTERNLOGQ $0x96, Z13, Z9, Z3

// LOAD reads the next 256 bytes.
#define LOAD \
	VMOVDQU64 (SI), Z10; \
	VMOVDQU64 64(SI), Z11; \
	VMOVDQU64 128(SI), Z12; \
	VMOVDQU64 192(SI), Z13

// MOVED moves the 64 bytes of one register on, 64 or 16 bytes, and adds the next.
#define MOVED(from, to, next) \
	VPCLMULQDQ $0x00, Z5, from, Z6; \
	VPCLMULQDQ $0x11, Z5, from, Z7; \
	VMOVDQA64 next, to; \
	VPTERNLOGQ $0x96, Z7, Z6, to

// QUARTERS makes 64 bytes of the 256 in Z0 to Z3, in Z0, with the factors of 64 bytes.
#define QUARTERS \
	VBROADCASTI32X4 16(DX), Z5; \
	MOVED(Z0, Z4, Z1); \
	MOVED(Z4, Z1, Z2); \
	MOVED(Z1, Z0, Z3)

// REMAINDER is that of the 64 bytes in Z0, in AX.
#define REMAINDER \
	XORL AX, AX; \
	VMOVQ X0, BX; \
	CRC32Q BX, AX; \
	VPEXTRQ $1, X0, BX; \
	CRC32Q BX, AX; \
	VEXTRACTI32X4 $1, Z0, X1; \
	VMOVQ X1, BX; \
	CRC32Q BX, AX; \
	VPEXTRQ $1, X1, BX; \
	CRC32Q BX, AX; \
	VEXTRACTI32X4 $2, Z0, X1; \
	VMOVQ X1, BX; \
	CRC32Q BX, AX; \
	VPEXTRQ $1, X1, BX; \
	CRC32Q BX, AX; \
	VEXTRACTI32X4 $3, Z0, X1; \
	VMOVQ X1, BX; \
	CRC32Q BX, AX; \
	VPEXTRQ $1, X1, BX; \
	CRC32Q BX, AX; \
	VZEROUPPER

// func fold(start uint32, b []byte, by *[4]uint64) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVL start+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ by+32(FP), DX
	VMOVD AX, X4              // clears the rest of Z4
	VBROADCASTI32X4 (DX), Z5
	LOAD
	VPXORQ Z4, Z10, Z0
	VMOVDQA64 Z11, Z1
	VMOVDQA64 Z12, Z2
	VMOVDQA64 Z13, Z3

next:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JLT  quarters
	LOAD
	ROUND
	JMP  next

quarters:
	QUARTERS

quarter:
	CMPQ CX, $64
	JLT  last
	VMOVDQU64 (SI), Z10
	MOVED(Z0, Z0, Z10)
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  quarter

last:
	REMAINDER

words:
	TESTQ CX, CX
	JZ    done
	CRC32Q (SI), AX
	ADDQ  $8, SI
	SUBQ  $8, CX
	JMP   words

done:
	MOVL AX, ret+40(FP)
	RET

// func foldCopy(start uint32, to, from []byte, by *[4]uint64) uint32
TEXT ·foldCopy(SB), NOSPLIT, $0-68
	MOVL start+0(FP), AX
	MOVQ to_base+8(FP), DI
	MOVQ from_base+32(FP), SI
	MOVQ from_len+40(FP), CX
	MOVQ by+56(FP), DX
	VMOVD AX, X4
	VBROADCASTI32X4 (DX), Z5
	LOAD
	VPXORQ Z4, Z10, Z0
	VMOVDQA64 Z11, Z1
	VMOVDQA64 Z12, Z2
	VMOVDQA64 Z13, Z3

next:
	VMOVDQU64 Z10, (DI)
	VMOVDQU64 Z11, 64(DI)
	VMOVDQU64 Z12, 128(DI)
	VMOVDQU64 Z13, 192(DI)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	CMPQ CX, $256
	JLT  quarters
	LOAD
	ROUND
	JMP  next

quarters:
	QUARTERS

quarter:
	CMPQ CX, $64
	JLT  last
	VMOVDQU64 (SI), Z10
	VMOVDQU64 Z10, (DI)
	MOVED(Z0, Z0, Z10)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP  quarter

last:
	REMAINDER

words:
	TESTQ CX, CX
	JZ    done
	MOVQ  (SI), BX
	MOVQ  BX, (DI)
	CRC32Q BX, AX
	ADDQ  $8, SI
	ADDQ  $8, DI
	SUBQ  $8, CX
	JMP   words

done:
	MOVL AX, ret+64(FP)
	RET

// func few(start uint32, b []byte) uint32
TEXT ·few(SB), NOSPLIT, $0-36
	MOVL start+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ CX, DX
	SHRQ $3, DX
	JZ   four

eight:
	CRC32Q (SI), AX
	ADDQ   $8, SI
	DECQ   DX
	JNZ    eight

four:
	TESTQ $4, CX
	JZ    two
	CRC32L (SI), AX
	ADDQ   $4, SI

two:
	TESTQ $2, CX
	JZ    one
	CRC32W (SI), AX
	ADDQ   $2, SI

one:
	TESTQ $1, CX
	JZ    done
	CRC32B (SI), AX

done:
	MOVL AX, ret+32(FP)
	RET

// func sum(b []byte) uint32
TEXT ·sum(SB), NOSPLIT, $0-28
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	MOVL $-1, AX

	// From EthernetSize to crcOffset.
	CRC32Q 14(SI), AX
	CRC32Q 22(SI), AX
	CRC32Q 30(SI), AX
	CRC32Q 38(SI), AX
	CRC32Q 46(SI), AX
	CRC32Q 54(SI), AX
	CRC32Q 62(SI), AX
	CRC32L 70(SI), AX
	CRC32W 74(SI), AX

	// From crcAfter on.
	ADDQ $80, SI
	SUBQ $80, CX
	MOVQ CX, DX
	SHRQ $3, DX
	JZ   four

eight:
	CRC32Q (SI), AX
	ADDQ   $8, SI
	DECQ   DX
	JNZ    eight

four:
	TESTQ $4, CX
	JZ    two
	CRC32L (SI), AX
	ADDQ   $4, SI

two:
	TESTQ $2, CX
	JZ    one
	CRC32W (SI), AX
	ADDQ   $2, SI

one:
	TESTQ $1, CX
	JZ    done
	CRC32B (SI), AX

done:
	NOTL AX
	MOVL AX, ret+24(FP)
	RET
