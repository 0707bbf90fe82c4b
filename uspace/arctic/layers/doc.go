// Package layers shows FUNet frames to gopacket, so that capture, dump and test
// tools read and compose them next to every other protocol.
//
// Importing the package is enough: it registers layer type FUNet for EtherType 0x88B5, and
//
//	gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
//
// with gopacket's own layers package then gives an Ethernet layer and a [FUNet] layer. The whole of
// the frame is the one FUNet layer: header fields, Rejects, and Packets with a header and a payload
// each. Packets are a field, not layers of their own, because the frame is one unit: one checksum
// covers it, and whether a packet is allowed depends on the header and on the packets before it. So
// gopacket's DecodingLayerParser, which keeps one value per layer type, sees every packet of a
// train too.
//
// # The journey of a frame
//
// Decoding ([FUNet.DecodeFromBytes]) gets the bytes that follow the EtherType. It reads the header
// field by field in the order of the layout in package arctic's doc.go, then checks version,
// length, checksum and reserved bits, then reads the rejects and the packets. It refuses exactly
// the frames that arctic.Parse refuses and for the same reason, so a tool says of a frame what a
// card says of it. It shares no decoding code with arctic, only types and errors, so each is a
// check of the other. A refused frame becomes gopacket's DecodeFailure layer, whose error says what
// was found and wraps an arctic.Err value. It is marked as truncated where bytes are missing, as in
// a capture with a short snap length.
//
// Composing ([FUNet.SerializeTo]) writes the same fields in the same order. With FixLengths the
// length, the counts and each packet's length are computed from Rejects and Packets. With
// ComputeChecksums the checksum is computed, too. Without these options the fields are written as
// they stand. So a frame that a card would refuse can be composed on purpose, to see it refused. A
// value that the layout has no room for (a GID of 12 bits, a payload of 32 words) is an error.
//
// # Rules
//
//   - Ethernet's padding is in no layer: the FUNet layer ends where its length says.
//   - Decoded payloads alias the bytes that were decoded, as everywhere in gopacket.
//   - A value may be used by one goroutine at a time; distinct values are
//     independent.
//   - gopacket also finds FUNet frames behind a VLAN tag. A card does not regard such a frame as
//     FUNet's.
package layers
