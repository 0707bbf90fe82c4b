package layers

// This file is the FUNet layer as a gopacket user sees it: its fields, its
// registration and the small methods of gopacket's interfaces.

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/funet/funet/uspace/arctic"
)

// EthernetTypeFUNet is the EtherType of FUNet frames, IEEE 802 local experimental EtherType 1.
const EthernetTypeFUNet layers.EthernetType = 0x88B5

// LayerTypeFUNet is the layer type of FUNet frames. Its number is from the range
// 1000 to 1999 that gopacket leaves to applications; a program that registers
// the same number for something else panics when it starts.
var LayerTypeFUNet = gopacket.RegisterLayerType(1885, gopacket.LayerTypeMetadata{
	Name:    "FUNet",
	Decoder: gopacket.DecodeFunc(decodeFUNet),
})

func init() {
	layers.EthernetTypeMetadata[EthernetTypeFUNet] = layers.EnumMetadata{
		DecodeWith: gopacket.DecodeFunc(decodeFUNet),
		Name:       "FUNet",
		LayerType:  LayerTypeFUNet,
	}
}

// FUNet is the part of a FUNet frame behind the Ethernet header. The meaning of the
// fields and their place on the wire are in doc.go of package arctic.
type FUNet struct {
	// BaseLayer's Contents is the frame from the version to the end of the last
	// packet or the block; its Payload is empty.
	layers.BaseLayer

	Version uint8 // arctic.Version or arctic.VersionDirect; a composer sets it
	Level   arctic.Level
	Hello   bool
	Bye     bool
	Defer   bool // as in arctic.Header
	// Sealed says that the frame ends with MAC and the upper half of Counter, whose lower half
	// takes the place of the checksum. Nothing here verifies it. Unless the frame is Readable,
	// everything behind the header is in Ciphertext.
	Sealed, Readable bool
	// Length is the number of bytes from the version to the end of the last packet or the block,
	// without Ethernet header and padding. FixLengths sets it.
	Length          uint16
	GID             uint16 // at most arctic.MaxGID
	Route           uint32 // at most arctic.MaxRoute
	SourceCard      uint16
	DestinationCard uint16
	// PacketCount and RejectCount are the counts on the wire. FixLengths sets
	// them to the lengths of Packets and Rejects.
	PacketCount uint8 // at most arctic.MaxTrain
	RejectCount uint8 // at most arctic.MaxRejects

	Age      uint16
	Epoch    uint64
	Sequence uint32
	// Acks and Selective are indexed by level.
	Acks      [arctic.Levels]uint32
	Selective [arctic.Levels]uint64
	Tag       uint64 // of the packets' job; 0 without packets
	Checksum  uint32 // the CRC-32C on the wire. ComputeChecksums sets it.
	Counter   uint64 // of a sealed frame
	// MAC has the 16 bytes that authenticate a sealed frame, or a greeting; nil: the frame has
	// none.
	MAC      []byte
	Greeting arctic.Greeting // the greeting of a hello, where the hello has a MAC
	// Ciphertext is the payload of a sealed frame that is not readable: rejects, packets and block.
	Ciphertext []byte

	Rejects []arctic.Reject
	Packets []Packet
	// Block is the data behind the only packet, a transfer; nil: the frame has none. It is empty
	// where the data is in Ciphertext.
	Block []byte
}

// Packet is one Arctic packet of a frame's train.
type Packet struct {
	arctic.PacketHeader // PacketHeader is the three header words. FixLengths sets its Length.
	// Payload is the bytes after the header words, a multiple of four, at most
	// 84 on a frame that a card accepts.
	Payload []byte
}

// LayerType returns LayerTypeFUNet.
func (f *FUNet) LayerType() gopacket.LayerType { return LayerTypeFUNet }

// CanDecode returns LayerTypeFUNet.
func (f *FUNet) CanDecode() gopacket.LayerClass { return LayerTypeFUNet }

// NextLayerType returns gopacket.LayerTypeZero: the packets are in the layer, and
// nothing follows it.
func (f *FUNet) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

var (
	_ gopacket.Layer             = (*FUNet)(nil)
	_ gopacket.DecodingLayer     = (*FUNet)(nil)
	_ gopacket.SerializableLayer = (*FUNet)(nil)
)
