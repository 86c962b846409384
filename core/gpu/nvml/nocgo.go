//go:build !cgo

package nvml

import (
	"fmt"

	"github.com/launch-ml/launch/core/gpu"
)

type driver struct{}

func open() (*driver, error) {
	return nil, fmt.Errorf("%w that this build could ask: it was built without cgo", ErrNoDriver)
}

func (*driver) devices() ([]gpu.Device, error) { return nil, nil }
