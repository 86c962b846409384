package trace

import _ "embed"

// driver/nocard_ARCH.so is driver/nocard.c, built by `make nocard`.
//
//go:embed driver/nocard_amd64.so
var nocardAMD64 []byte

// libraries answer for a driver that is not there, by the machine that they are built for.
var libraries = map[string][]byte{"amd64": nocardAMD64}
