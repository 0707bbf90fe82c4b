package main

// This file compares the numbers of funet.h with those of Go. What does not compile differs.

// #include "gate.h"
import "C"

import (
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/ultra"
)

var _ = [1]struct{}{}[C.FUNET_HANDLERS-am.Handlers|
	C.FUNET_SHORT-am.ShortBytes|
	C.FUNET_MAX_BYTES-am.MaxBytes|
	C.FUNET_MAX_TAGGED-am.MaxTaggedBytes|
	C.FUNET_MAX_CALLS-am.MaxRemoteCalls|
	C.FUNET_FIRST_CODE-am.FirstCode|
	C.FUNET_MAX_TAG-int(funet.MaxTag)|
	C.FUNET_WRITE-int(arctic.RemoteWrite)|
	C.FUNET_READ-int(arctic.RemoteRead)|
	C.FUNET_ADD-int(arctic.RemoteAdd)|
	C.FUNET_AND-int(arctic.RemoteAnd)|
	C.FUNET_OR-int(arctic.RemoteOr)|
	C.FUNET_XOR-int(arctic.RemoteXor)|
	C.FUNET_MIN-int(arctic.RemoteMin)|
	C.FUNET_MAX-int(arctic.RemoteMax)|
	C.FUNET_PROD-int(arctic.RemoteProd)|
	C.FUNET_SWAP-int(arctic.RemoteSwap)|
	C.FUNET_COMPARE_SWAP-int(arctic.RemoteCompareSwap)|
	C.FUNET_MASKED_SWAP-int(arctic.RemoteMaskedSwap)|
	C.FUNET_U8-int(arctic.Uint8)|
	C.FUNET_I8-int(arctic.Int8)|
	C.FUNET_I64-int(arctic.Int64)|
	C.FUNET_F64-int(arctic.Float64)|
	C.FUNET_MAY_READ-int(funi.RightRead)|
	C.FUNET_MAY_WRITE-int(funi.RightWrite)|
	C.FUNET_MAY_OPERATE-int(funi.RightAtomic)|
	C.FUNET_MAY_NOTIFY-int(funi.RightNotify)|
	C.FUNET_LINE-ultra.MaxWords|
	C.FUNET_CHAINS-funi.MaxChains|
	C.FUNET_MAX_NEXT-funi.MaxNext]
