package trace

import _ "embed"

// driver/nocard_ARCH.so is driver/nocard.c, built by `make nocard`.
var (
	//go:embed driver/nocard_amd64.so
	nocardAMD64 []byte
	//go:embed driver/nocard_arm64.so
	nocardARM64 []byte
)

// libraries answer for a driver that is not there, by the machine that they are built for.
var libraries = map[string][]byte{"amd64": nocardAMD64, "arm64": nocardARM64}
