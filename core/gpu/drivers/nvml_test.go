package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
)

// How busy a card is comes through the driver's process, and what is unknown stays so. No document has it.
func TestBusy(t *testing.T) {
	idle := 0
	text, err := json.Marshal(lookAt([]gpu.Device{{Name: "a", Busy: &idle}, {Name: "b"}}))
	if err != nil {
		t.Fatal(err)
	}
	var l look
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	all := l.devices()
	if len(all) != 2 || all[0].Busy == nil || *all[0].Busy != 0 || all[1].Busy != nil || all[1].Name != "b" {
		t.Errorf("%s was read as %+v", text, all)
	}
	if text, err := json.Marshal(all[0]); err != nil || string(text) != mustMarshal(t, gpu.Device{Name: "a"}) {
		t.Errorf("a document of the card is %s, %v", text, err)
	}
	l = look{Devices: []gpu.Device{{Name: "a"}}} // of a driver's process that reports none
	if all := l.devices(); all[0].Busy != nil {
		t.Errorf("%+v", all)
	}
}

// A driver that hangs for good keeps nobody waiting for good.
func TestWithin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	defer close(hangs)
	began := make(chan struct{})
	go func() {
		<-began
		cancel()
	}()
	_, err := within(ctx, func() (int, error) { close(began); <-hangs; return 1, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("of a driver that hangs it says %v", err)
	}
	n, err := within(t.Context(), func() (int, error) { return 2, errors.ErrUnsupported })
	if n != 2 || err != errors.ErrUnsupported {
		t.Errorf("an answer is %d, %v", n, err)
	}
	// what comes late comes
	if n, err := within(ctx, func() (int, error) { return 3, nil }); n != 3 || err != nil {
		t.Errorf("a late answer is %d, %v", n, err)
	}
}

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
