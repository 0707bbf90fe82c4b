package capture

import _ "embed" // the dissector

// Dissector is a Lua script with which Wireshark and tshark decode every field of FUNet's frames.
//
//go:embed funet.lua
var Dissector string
