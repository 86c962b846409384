//go:build !cgo || carried

package drivers

import (
	"errors"

	"github.com/launch-ml/launch/core/gpu"
)

type driver struct{}

func open() (*driver, error) {
	return nil, errors.New("this program cannot load NVIDIA's library")
}

func (*driver) devices() ([]gpu.Device, error) { return nil, nil }
