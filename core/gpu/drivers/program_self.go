//go:build cgo && !carried

package drivers

// program is this program, which can load the library itself.
func program() (path string, started func(), err error) { return "/proc/self/exe", func() {}, nil }
