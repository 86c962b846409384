package drivers

import (
	"encoding/json"
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

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
