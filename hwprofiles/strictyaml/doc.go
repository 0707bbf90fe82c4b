// Package strictyaml reads the small YAML files that people write for FUNet: the daemon's
// configuration, the peers file and hardware profiles. The packages of these files own their
// formats. This package owns how bytes become values, and how an error says where it is.
//
// The bytes of a file pass through here in this order:
//
//   - [Format.ReadFile] reads no more bytes than the format allows;
//   - [Format.Parse] refuses bytes that are too many or nested too deeply to be parsed, and
//     gives the root of the only document as a [Node];
//   - [Node.Keys], [Node.Fields], [Node.List] and [Node.Text] take the tree apart. They refuse keys
//     that the format does not have, keys given twice, anchors, aliases, tags, merge keys and
//     further documents. A value is the text as written, not what YAML makes of it: a mac without
//     quotes is not a number, 007 keeps its zeros, and 0x10 is no decimal number;
//   - [Node.Errorf] makes the format's own complaints.
//
// An error is one line, which begins with file, line and column ("peers.yaml:7:12: ...") and
// wraps the format's error. Any bytes are safe to give: there is an error and never a panic.
// goccy/go-yaml parses. Its strict decoding into structs was not enough: it converts scalars
// before the struct sees them, and follows anchors and merge keys.
//
// Nothing here keeps state; every function may be called from any goroutine.
package strictyaml
