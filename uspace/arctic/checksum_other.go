//go:build !amd64

package arctic

const (
	canFold  = false
	hasCRC32 = false
)

func few(uint32, []byte) uint32                          { return 0 }
func sum([]byte) uint32                                  { return 0 }
func fold(uint32, []byte, *[4]uint64) uint32             { return 0 }
func foldCopy(uint32, []byte, []byte, *[4]uint64) uint32 { return 0 }
