//go:build !amd64

package arctic

const canFold = false

const canSum = false

func sum(uint32, []byte) uint32 { return 0 }

func fold(uint32, []byte, *[4]uint64) uint32 { return 0 }

func foldCopy(uint32, []byte, []byte, *[4]uint64) uint32 { return 0 }
