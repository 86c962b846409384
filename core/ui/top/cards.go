package top

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
)

// again is the time after which a driver that has failed is asked again.
const again = 30 * time.Second

// Watch looks at the cards from time to time until ctx is done. last returns the last look, without waiting. done is
// closed when the watch has ended.
func Watch(ctx context.Context, every time.Duration) (last func() ([]gpu.Device, error), done <-chan struct{}) {
	var mu sync.Mutex
	var seen []gpu.Device
	why := errors.New("the driver has not answered yet")
	set := func(devices []gpu.Device, err error) {
		mu.Lock()
		seen, why = devices, err
		mu.Unlock()
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		for ctx.Err() == nil {
			err := drivers.Watch(ctx, every, func(_ time.Time, all []gpu.Device) { set(all, nil) })
			if ctx.Err() != nil {
				return
			}
			set(nil, err)
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
		}
	}()
	return func() ([]gpu.Device, error) {
		mu.Lock()
		defer mu.Unlock()
		return seen, why
	}, end
}
