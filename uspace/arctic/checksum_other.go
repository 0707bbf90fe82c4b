//go:build !amd64

package arctic

const canFold = false

func fold(uint32, []byte, *[4]uint64) uint32 { return 0 }

func foldCopy(uint32, []byte, []byte, *[4]uint64) uint32 { return 0 }
