-- Dissector of FUNet frames for Wireshark and tshark (Lua 5.2 and later): funet capture --dissector
-- prints it; wireshark -X lua_script:funet.lua uses it, and so does every Wireshark that finds it in its
-- folder of personal Lua plugins. The format is drawn in uspace/arctic/doc.go; field names begin with funet.

local funet = Proto("funet", "FUNet")

local HEADER, REJECT, PACKET, WORD, GREETING, SEAL = 66, 16, 12, 4, 56, 20 -- bytes, without the Ethernet header
local ETHERNET, BUNDLE = 14, 30 -- an Ethernet header; in front of a bundle's first frame (uspace/arctic/bundle.go)
local HELLO = 106 -- package uspace/port/hello draws it
local hellos = { "question", "answer", "announcement", "goodbye" }
local MOST_PACKETS, MOST_REJECTS, MOST_WORDS = 64, 32, 21

local levels = { [0] = "request", [1] = "reply" }
local kinds = { [0] = "message", "transfer", "remote", "response", "send", "multicast", "forward", "extended" }
local forms = { [0] = "single", "part", "last", "block" }
local path_types = { [0] = "data", "init", "response", "is the origin there", "is the target there" }
local send_forms = { [0] = "whole", "open", "piece", "last" }
local reasons = {
	[1] = "receive queue full", [2] = "context is switched out", [3] = "frame was too long for the way", [64] = "unknown kind of packet",
	[65] = "no such node on the receiving card", [66] = "destination is not in a segment that the receiver lets others write",
	[67] = "malformed transfer packet", [68] = "receiver's route table does not put the sending node on the sending card",
	[69] = "another process has become the node since the transfer began", [70] = "another job has this GID there",
	[71] = "no such key slot there, or another key", [72] = "not within the memory of the key slot", [73] = "no such area of the key slot there",
	[74] = "receiver has no buffer for it", [75] = "malformed remote write",
	[87] = "longer than the buffer posted for it, and cut", [88] = "receiver has given up the room for the message",
}
local sums = { [0] = "bad", [1] = "good" }

local f = {
	version = ProtoField.uint8("funet.version", "Version"),
	flags = ProtoField.uint8("funet.flags", "Flags", base.HEX),
	level = ProtoField.uint8("funet.flags.level", "Level", base.DEC, levels, 0x01),
	hello = ProtoField.bool("funet.flags.hello", "Hello", 8, nil, 0x02),
	bye = ProtoField.bool("funet.flags.bye", "Bye", 8, nil, 0x04),
	has_block = ProtoField.bool("funet.flags.block", "Block", 8, nil, 0x08),
	sealed = ProtoField.bool("funet.flags.sealed", "Sealed", 8, nil, 0x10),
	readable = ProtoField.bool("funet.flags.readable", "Readable", 8, nil, 0x20),
	defer = ProtoField.bool("funet.flags.defer", "Defer", 8, nil, 0x40),
	length = ProtoField.uint16("funet.length", "Length"),
	gid = ProtoField.uint16("funet.gid", "GID"),
	route = ProtoField.uint32("funet.route", "Route"),
	source_card = ProtoField.uint16("funet.source_card", "Source card"),
	destination_card = ProtoField.uint16("funet.destination_card", "Destination card"),
	packets = ProtoField.uint8("funet.packets", "Packets"),
	rejects = ProtoField.uint8("funet.rejects", "Rejects"),
	age = ProtoField.uint16("funet.age", "Age"),
	epoch = ProtoField.uint64("funet.epoch", "Epoch", base.HEX),
	sequence = ProtoField.uint32("funet.sequence", "Sequence"),
	request_ack = ProtoField.uint32("funet.request_ack", "Request acknowledgment"),
	request_selective = ProtoField.uint64("funet.request_selective", "Request selective bits", base.HEX),
	reply_ack = ProtoField.uint32("funet.reply_ack", "Reply acknowledgment"),
	reply_selective = ProtoField.uint64("funet.reply_selective", "Reply selective bits", base.HEX),
	tag = ProtoField.uint64("funet.tag", "Tag of the job", base.HEX),
	checksum = ProtoField.uint32("funet.checksum", "CRC-32C", base.HEX),
	checksum_status = ProtoField.uint8("funet.checksum.status", "CRC-32C status", base.DEC, sums),
	counter = ProtoField.uint64("funet.counter", "Counter"),
	mac = ProtoField.bytes("funet.mac", "Authentication"),
	ciphertext = ProtoField.bytes("funet.ciphertext", "Encrypted"),

	nonce = ProtoField.uint64("funet.greeting.nonce", "Nonce", base.HEX),
	echo = ProtoField.uint64("funet.greeting.echo", "Echo", base.HEX),
	incarnation = ProtoField.uint32("funet.greeting.incarnation", "Incarnation", base.HEX),
	number = ProtoField.uint64("funet.greeting.number", "Number"),
	longest = ProtoField.uint32("funet.greeting.longest", "Longest frame"),
	greeting_flags = ProtoField.uint32("funet.greeting.flags", "Flags of the greeting", base.HEX),
	asks = ProtoField.bool("funet.greeting.flags.asks", "Asks", 32, nil, 0x01),
	authenticated = ProtoField.bool("funet.greeting.flags.authenticated", "Authenticated", 32, nil, 0x02),
	wants_readable = ProtoField.bool("funet.greeting.flags.readable", "Readable", 32, nil, 0x04),
	defers = ProtoField.bool("funet.greeting.flags.defers", "Defers", 32, nil, 0x08),
	key = ProtoField.uint32("funet.greeting.key", "Key", base.HEX),

	reject = ProtoField.none("funet.reject", "Reject"),
	reject_sequence = ProtoField.uint32("funet.reject.sequence", "Sequence"),
	reject_level = ProtoField.uint8("funet.reject.level", "Level", base.DEC, levels),
	reject_reason = ProtoField.uint8("funet.reject.reason", "Reason", base.DEC, reasons),
	reject_bits = ProtoField.uint64("funet.reject.bits", "Packets", base.HEX),

	packet = ProtoField.none("funet.packet", "Packet"),
	packet_level = ProtoField.uint8("funet.packet.level", "Level", base.DEC, levels),
	packet_kind = ProtoField.uint8("funet.packet.kind", "Kind", base.DEC, kinds),
	packet_route = ProtoField.uint32("funet.packet.route", "Route"),
	packet_gid = ProtoField.uint16("funet.packet.gid", "GID"),
	packet_length = ProtoField.uint8("funet.packet.length", "Length in words"),
	packet_destination = ProtoField.uint16("funet.packet.destination", "Destination node"),
	packet_type = ProtoField.uint16("funet.packet.type", "Type"),
	packet_source = ProtoField.uint16("funet.packet.source", "Source node"),
	packet_word = ProtoField.uint32("funet.packet.word", "Word", base.HEX),

	transfer_form = ProtoField.uint8("funet.transfer.form", "Form", base.DEC, forms),
	transfer_at_once = ProtoField.bool("funet.transfer.at_once", "Acknowledge at once"),
	transfer_address = ProtoField.uint32("funet.transfer.address", "Address", base.HEX),
	transfer_argument = ProtoField.uint32("funet.transfer.argument", "Argument", base.HEX),
	transfer_total = ProtoField.uint32("funet.transfer.total", "Words of the whole"),
	transfer_first = ProtoField.uint32("funet.transfer.first", "First sequence"),
	transfer_data = ProtoField.bytes("funet.transfer.data", "Data"),

	remote_key = ProtoField.uint64("funet.remote.key", "Key", base.HEX),
	remote_offset = ProtoField.uint32("funet.remote.offset", "Offset"),
	remote_area = ProtoField.uint16("funet.remote.area", "Area"),
	remote_counted = ProtoField.bool("funet.remote.counted", "Counted"),
	remote_delta = ProtoField.uint32("funet.remote.delta", "Delta"),
	remote_metadata = ProtoField.bytes("funet.remote.metadata", "Metadata"),
	remote_data = ProtoField.bytes("funet.remote.data", "Data"),

	send_form = ProtoField.uint8("funet.send.form", "Form", base.DEC, send_forms),
	send_total = ProtoField.uint32("funet.send.total", "Bytes of the message"),
	send_key = ProtoField.uint64("funet.send.key", "Key of the message", base.HEX),
	send_offset = ProtoField.uint32("funet.send.offset", "Offset"),
	send_request = ProtoField.uint32("funet.send.request", "Request", base.HEX),
	send_user_tag = ProtoField.uint64("funet.send.user_tag", "User tag", base.HEX),
	send_api_tag = ProtoField.uint32("funet.send.api_tag", "API tag", base.HEX),
	send_data = ProtoField.bytes("funet.send.data", "Data"),

	path_type = ProtoField.uint16("funet.path.type", "Type", base.DEC, path_types),
	path_sequence = ProtoField.uint16("funet.path.sequence", "Sequence"),
	path_generation = ProtoField.uint16("funet.path.generation", "Generation"),
	path_origin = ProtoField.uint16("funet.path.origin", "Origin's end"),
	path_target = ProtoField.uint16("funet.path.target", "Target's end"),
	path_data = ProtoField.bytes("funet.path.data", "Words"),

	block = ProtoField.bytes("funet.block", "Block"),
	padding = ProtoField.bytes("funet.padding", "Ethernet's padding"),
	probe = ProtoField.bytes("funet.probe", "Probe of funet doctor"),
}
local list = {}
for _, field in pairs(f) do
	table.insert(list, field)
end
funet.fields = list

local malformed = ProtoExpert.new("funet.malformed", "Malformed FUNet frame", expert.group.MALFORMED, expert.severity.ERROR)
local other = ProtoExpert.new("funet.other_version", "Another version of FUNet", expert.group.UNDECODED, expert.severity.WARN)
local damaged = ProtoExpert.new("funet.checksum.bad", "Bad checksum", expert.group.CHECKSUM, expert.severity.ERROR)
funet.experts = { malformed, other, damaged }

-- bits returns bits high to low of a word.
local function bits(word, high, low)
	return math.floor(word / 2 ^ low) % 2 ^ (high - low + 1)
end

-- CRC-32C (RFC 3720, appendix B.4). Lua has no operator for exclusive or before 5.3, where it has
-- no library for it any more.
local xor = (bit32 or bit or {}).bxor
if xor == nil then
	xor = load("return function(a, b) return a ~ b end")()
end
local crcs = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do
		if c % 2 == 1 then
			c = xor(math.floor(c / 2), 0x82F63B78) % 2 ^ 32
		else
			c = math.floor(c / 2)
		end
	end
	crcs[i] = math.floor(c)
end

-- checksum is the CRC-32C of bytes first to last of a string.
local function checksum(c, s, first, last)
	for i = first, last do
		c = math.floor(xor(math.floor(c / 256), crcs[math.floor(xor(c, s:byte(i)) % 256)]) % 2 ^ 32)
	end
	return c
end

local function fails(tree, range, text)
	tree:add_tvb_expert_info(malformed, range, text)
end

-- reject decodes the reject at an offset.
local function reject(tvb, at, tree, i)
	local t = tree:add(f.reject, tvb(at, REJECT))
	local reason = tvb(at + 5, 1):uint()
	t:set_text(string.format("Reject %d: sequence %d, %s", i, tvb(at, 4):le_uint(), reasons[reason] or "reason " .. reason))
	t:add_le(f.reject_sequence, tvb(at, 4))
	t:add(f.reject_level, tvb(at + 4, 1))
	t:add(f.reject_reason, tvb(at + 5, 1))
	t:add_le(f.reject_bits, tvb(at + 8, 8))
	if tvb(at + 4, 1):uint() > 1 or reason == 0 or reason >= 128 or tvb(at + 6, 2):uint() ~= 0 then
		fails(t, tvb(at, REJECT), "Reserved bits of a reject")
	end
end

-- transfer decodes the payload of a transfer, which begins at an offset.
local function transfer(tvb, at, size, tree)
	local word = tvb(at, 4):le_uint()
	local form = bits(word, 1, 0)
	local unnamed = form == 1 and bits(word, 3, 3) == 1 -- a single without an argument
	if unnamed then
		form = 0
	end
	tree:add(f.transfer_form, tvb(at, 1), form)
	if form == 1 or form == 3 then
		tree:add(f.transfer_at_once, tvb(at, 1), bits(word, 2, 2) == 1)
	end
	tree:add(f.transfer_address, tvb(at, 4), word - word % 16)
	local past = at + 4
	local names = {}
	if form == 0 and not unnamed then
		names = { f.transfer_argument }
	elseif form == 2 then
		names = { f.transfer_argument, f.transfer_total, f.transfer_first }
	end
	for _, name in ipairs(names) do
		if past + 4 > at + size then
			return
		end
		tree:add_le(name, tvb(past, 4))
		past = past + 4
	end
	if past < at + size then
		tree:add(f.transfer_data, tvb(past, at + size - past))
	end
	return form
end

-- remote decodes the payload of a remote write, which begins at an offset. It returns 3 as transfer does if a block follows.
local function remote(tvb, at, size, typ, tree)
	local word = tvb(at + 12, 4):le_uint()
	tree:add_le(f.remote_key, tvb(at, 8))
	tree:add_le(f.remote_offset, tvb(at + 8, 4))
	tree:add_le(f.remote_area, tvb(at + 14, 2))
	tree:add(f.remote_counted, tvb(at + 13, 1), bits(word, 15, 15) == 1)
	tree:add_le(f.remote_delta, tvb(at + 16, 4))
	local metadata, pad, past = bits(word, 3, 0) * WORD, bits(word, 11, 8), at + 20
	if metadata > 0 and past + metadata <= at + size then
		tree:add(f.remote_metadata, tvb(past, metadata))
		past = past + metadata
	end
	if past + pad < at + size then
		tree:add(f.remote_data, tvb(past, at + size - pad - past))
	end
	return bits(typ, 11, 11) == 1 and size == 20 and 3 or nil
end

-- send decodes the payload of a message, which begins at an offset. It returns 3 as transfer does if a block follows.
local function send(tvb, at, size, typ, tree)
	tree:add(f.send_form, tvb(at, 1), bits(typ, 1, 0))
	tree:add_le(f.send_total, tvb(at, 4))
	tree:add_le(f.send_key, tvb(at + 4, 8))
	tree:add_le(f.send_offset, tvb(at + 12, 4))
	tree:add_le(f.send_request, tvb(at + 16, 4))
	tree:add_le(f.send_user_tag, tvb(at + 20, 8))
	tree:add_le(f.send_api_tag, tvb(at + 28, 4))
	local data = size - 32 - bits(typ, 3, 2)
	if data > 0 then
		tree:add(f.send_data, tvb(at + 32, data))
	end
	return bits(typ, 11, 11) == 1 and size <= 48 and 3 or nil
end

-- path decodes the payload of a packet of an ULTRA path, which begins at an offset.
local function path(tvb, at, size, typ, tree)
	tree:add(f.path_type, tvb(at, 1), typ)
	tree:add_le(f.path_sequence, tvb(at, 2))
	tree:add_le(f.path_generation, tvb(at + 2, 2))
	tree:add_le(f.path_origin, tvb(at + 4, 2))
	tree:add_le(f.path_target, tvb(at + 6, 2))
	if size > 8 then
		tree:add(f.path_data, tvb(at + 8, size - 8))
	end
end

-- packet decodes the packet at an offset, before the end of the frame, and returns where it ends, and the form of a transfer.
-- first is where the frame's first packet is: all are of one train.
local function packet(tvb, at, last, tree, i, first)
	if at + PACKET > last then
		fails(tree, tvb(at, math.max(last - at, 0)), "Packet beyond its frame")
		return nil
	end
	local w0, w1, w2 = tvb(at, 4):le_uint(), tvb(at + 4, 4):le_uint(), tvb(at + 8, 4):le_uint()
	local words = bits(w1, 20, 16)
	local size = words * WORD
	if words > MOST_WORDS or at + PACKET + size > last then
		fails(tree, tvb(at, PACKET), "Packet of " .. words .. " words beyond its frame")
		return nil
	end
	local kind = bits(w0, 30, 30) * 4 + bits(w2, 31, 30)
	if bits(w0, 31, 31) ~= bits(tvb(1, 1):uint(), 0, 0) or bits(w0, 29, 0) ~= tvb(6, 4):le_uint() or bits(w1, 31, 21) ~= tvb(4, 2):le_uint() then
		fails(tree, tvb(at, PACKET), "Packet of another level, route or group than its frame")
	end
	if bits(w1, 15, 0) ~= tvb(first + 4, 2):le_uint() or bits(w2, 15, 0) ~= tvb(first + 8, 2):le_uint() then
		fails(tree, tvb(at, PACKET), "Packet of another pair of nodes than the first")
	end
	local t = tree:add(f.packet, tvb(at, PACKET + size))
	t:set_text(string.format("Packet %d: %s of %d words, node %d to %d", i, kinds[kind], words, bits(w2, 15, 0), bits(w1, 15, 0)))
	t:add(f.packet_level, tvb(at + 3, 1), bits(w0, 31, 31))
	t:add(f.packet_kind, tvb(at, PACKET), kind)
	t:add(f.packet_route, tvb(at, 4), bits(w0, 29, 0))
	t:add(f.packet_gid, tvb(at + 6, 2), bits(w1, 31, 21))
	t:add(f.packet_length, tvb(at + 6, 1), words)
	t:add_le(f.packet_destination, tvb(at + 4, 2))
	t:add(f.packet_type, tvb(at + 10, 2), bits(w2, 29, 16))
	t:add_le(f.packet_source, tvb(at + 8, 2))
	local form
	if kind == 1 and words > 0 then
		form = transfer(tvb, at + PACKET, size, t)
	elseif kind == 2 and words >= 5 then
		form = remote(tvb, at + PACKET, size, bits(w2, 29, 16), t)
	elseif kind == 4 and words >= 8 then
		form = send(tvb, at + PACKET, size, bits(w2, 29, 16), t)
	elseif kind == 7 and words >= 2 then
		path(tvb, at + PACKET, size, bits(w2, 29, 16), t)
	else
		for w = 0, words - 1 do
			t:add_le(f.packet_word, tvb(at + PACKET + w * WORD, WORD))
		end
	end
	return at + PACKET + size, form
end

-- greeting decodes what a hello carries.
local function greeting(tvb, at, length, tree)
	if length ~= at + GREETING or tvb(at, 8):le_uint64() == UInt64(0) or tvb(at + 24, 4):le_uint() == 0 then
		fails(tree, tvb(1, 1), "Greeting of another length, or without a nonce or an incarnation")
		return
	end
	tree:add_le(f.nonce, tvb(at, 8))
	tree:add_le(f.echo, tvb(at + 8, 8))
	tree:add_le(f.number, tvb(at + 16, 8))
	tree:add_le(f.incarnation, tvb(at + 24, 4))
	tree:add_le(f.longest, tvb(at + 28, 4))
	local t = tree:add_le(f.greeting_flags, tvb(at + 32, 4))
	t:add_le(f.asks, tvb(at + 32, 4))
	t:add_le(f.authenticated, tvb(at + 32, 4))
	t:add_le(f.wants_readable, tvb(at + 32, 4))
	t:add_le(f.defers, tvb(at + 32, 4))
	tree:add_le(f.key, tvb(at + 36, 4))
	tree:add(f.mac, tvb(at + 40, 16))
end

function funet.dissector(tvb, pinfo, root)
	pinfo.cols.protocol = "FUNet"
	local tree = root:add(funet, tvb())
	if tvb:len() < 1 then
		fails(tree, tvb(), "Empty")
		return
	end
	local version = tvb(0, 1):uint()
	tree:add(f.version, tvb(0, 1))
	if version == 0 then
		pinfo.cols.info = "Probe of funet doctor"
		tree:add(f.probe, tvb(1))
		return tvb:len()
	end
	if version == 255 and tvb:len() >= HELLO then
		pinfo.cols.info = "Hello: " .. (hellos[tvb(4, 1):uint()] or "unknown") .. ", card " .. tvb(10, 2):le_uint() .. " of " .. tvb(74, 32):stringz()
		tree:add_le(f.length, tvb(2, 2))
		tree:add_le(f.source_card, tvb(10, 2))
		tree:add_le(f.destination_card, tvb(12, 2))
		return tvb:len()
	end
	if version == 8 and tvb:len() >= BUNDLE then -- offsets in it count from the Ethernet header
		local count, at = math.min(tvb(4, 1):uint(), 8), BUNDLE
		tree:add_le(f.length, tvb(2, 2))
		for i = 0, count - 1 do
			local upto = tvb(14 + 2 * i, 2):le_uint() - ETHERNET
			if upto < at + ETHERNET or upto > tvb:len() then
				fails(tree, tvb(14 + 2 * i, 2), "A frame of a bundle ends before it begins, or beyond the bundle")
				break
			end
			Dissector.get("eth_withoutfcs"):call(tvb(at, upto - at):tvb(), pinfo, tree)
			at = upto
		end
		pinfo.cols.info = "Bundle of " .. count .. " frames"
		return tvb:len()
	end
	if version ~= 6 and version ~= 7 then
		pinfo.cols.info = "Version " .. version
		tree:add_proto_expert_info(other)
		return tvb:len()
	end
	if tvb:len() < HEADER then
		fails(tree, tvb(), "Frame shorter than its header")
		return tvb:len()
	end
	local t = tree:add(f.flags, tvb(1, 1))
	t:add(f.level, tvb(1, 1))
	t:add(f.hello, tvb(1, 1))
	t:add(f.bye, tvb(1, 1))
	t:add(f.has_block, tvb(1, 1))
	t:add(f.sealed, tvb(1, 1))
	t:add(f.readable, tvb(1, 1))
	t:add(f.defer, tvb(1, 1))
	tree:add_le(f.length, tvb(2, 2))
	tree:add_le(f.gid, tvb(4, 2))
	tree:add_le(f.route, tvb(6, 4))
	tree:add_le(f.source_card, tvb(10, 2))
	tree:add_le(f.destination_card, tvb(12, 2))
	tree:add(f.packets, tvb(14, 1))
	tree:add(f.rejects, tvb(15, 1))
	tree:add_le(f.age, tvb(16, 2))
	tree:add_le(f.epoch, tvb(18, 8))
	tree:add_le(f.sequence, tvb(26, 4))
	tree:add_le(f.request_ack, tvb(30, 4))
	tree:add_le(f.request_selective, tvb(34, 8))
	tree:add_le(f.reply_ack, tvb(42, 4))
	tree:add_le(f.reply_selective, tvb(46, 8))
	tree:add_le(f.tag, tvb(54, 8))

	-- Frames of direct ports have the job's tag always, others only with packets.
	local tag_fits = version == 7 or tvb(54, 8):le_uint64() == UInt64(0)
	local flags, length = tvb(1, 1):uint(), tvb(2, 2):le_uint()
	local hello, bye, has_block = bits(flags, 1, 1) == 1, bits(flags, 2, 2) == 1, bits(flags, 3, 3) == 1
	local sealed, readable = bits(flags, 4, 4) == 1, bits(flags, 5, 5) == 1
	if not sealed then
		tree:add_le(f.checksum, tvb(62, 4))
	end
	local packets, rejects = tvb(14, 1):uint(), tvb(15, 1):uint()
	local gid, source, destination = tvb(4, 2):le_uint(), tvb(10, 2):le_uint(), tvb(12, 2):le_uint()
	local text = string.format("%d > %d GID %d %s", source, destination, gid, levels[flags % 2])
	if hello then
		text = text .. " hello"
	else
		text = text .. " seq " .. tvb(26, 4):le_uint()
	end
	if packets > 0 then
		text = text .. " packets " .. packets
	end
	if rejects > 0 then
		text = text .. " rejects " .. rejects
	end
	if bye then
		text = text .. " bye"
	end
	if sealed then
		text = text .. " sealed"
	end
	pinfo.cols.info = text

	if length < HEADER or length > tvb:reported_len() then
		fails(tree, tvb(2, 2), "Length does not fit the frame")
		return tvb:len()
	end
	if length > tvb:len() then
		return tvb:len() -- cut by the capture
	end
	local last = length -- where what the frame carries ends
	if sealed then
		last = length - SEAL
		if hello or last < HEADER then
			fails(tree, tvb(1, 3), "Sealed frame without room for its authentication, or a greeting")
			return tvb:len()
		end
		-- The halves of the counter are apart.
		local high, low = tvb(length - 4, 4):le_uint(), tvb(62, 4):le_uint()
		tree:add(f.counter, tvb(62, 4), UInt64(low, high))
		tree:add(f.mac, tvb(last, SEAL - 4))
	else
		local raw = tvb:raw(0, length)
		local sum = 2 ^ 32 - 1 - checksum(checksum(2 ^ 32 - 1, raw, 1, 62), raw, 67, length)
		local good = sum == tvb(62, 4):le_uint()
		tree:add(f.checksum_status, tvb(62, 4), good and 1 or 0):set_generated()
		if not good then
			tree:add_proto_expert_info(damaged)
		end
	end
	if flags > 127 or readable and not sealed or gid > 2047 or tvb(6, 4):le_uint() >= 2 ^ 30 or packets == 0 and not tag_fits then
		fails(tree, tvb(1, 9), "Reserved bits are set")
	end
	if packets > MOST_PACKETS or rejects > MOST_REJECTS or hello and packets + rejects > 0 then
		fails(tree, tvb(14, 2), "More packets or rejects than there can be")
		return tvb:len()
	end

	local at = HEADER
	if sealed and not readable then
		if at < last then
			tree:add(f.ciphertext, tvb(at, last - at))
		end
		if tvb:len() > length then
			tree:add(f.padding, tvb(length))
		end
		return tvb:len()
	end
	if hello then
		if has_block or not tag_fits then
			fails(tree, tvb(1, 1), "Reserved bits of a hello")
		end
		greeting(tvb, at, length, tree)
		if tvb:len() > length then
			tree:add(f.padding, tvb(length))
		end
		return tvb:len()
	end
	if at + rejects * REJECT > last then
		fails(tree, tvb(15, 1), "Rejects beyond the frame")
		return tvb:len()
	end
	for i = 1, rejects do
		reject(tvb, at, tree, i)
		at = at + REJECT
	end
	local form
	local first = at
	for i = 1, packets do
		at, form = packet(tvb, at, last, tree, i, first)
		if at == nil then
			return tvb:len()
		end
	end
	if has_block then
		if packets ~= 1 or form ~= 3 or at == last or (last - at) % 16 ~= 0 then
			fails(tree, tvb(at, last - at), "Block without the packet that says where it goes")
		else
			tree:add(f.block, tvb(at, last - at))
		end
	elseif at ~= last then
		fails(tree, tvb(at, last - at), "Bytes behind the last packet")
	end
	if tvb:len() > length then
		tree:add(f.padding, tvb(length))
	end
	return tvb:len()
end

DissectorTable.get("ethertype"):add(0x88B5, funet)
-- UDP encapsulation has the same bytes behind the UDP header; for another port, Decode As.
DissectorTable.get("udp.port"):add(30600, funet)
