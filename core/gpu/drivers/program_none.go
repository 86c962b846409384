//go:build !cgo && !carried

package drivers

import "errors"

func program() (path string, started func(), err error) {
	return "", nil, errors.New("this launch was built without a C compiler, and cannot load NVIDIA's library")
}
