package room

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// twoCards are a card that others fill, and one that is free.
func twoCards(device string) *Room {
	cards := []gpu.Device{
		{Kind: gpu.CUDA, Index: 0, UUID: "GPU-a", Total: 24 * gib, Used: 20 * gib},
		{Kind: gpu.CUDA, Index: 1, UUID: "GPU-b", Total: 24 * gib},
	}
	return &Room{wish: Wish{Device: device}, all: cards, seen: cards, Device: &cards[0], Devices: 2}
}

func need(cards int) Need {
	return Need{Cards: cards, On: func(unit.Bytes) Share { return Share{Bytes: 10 * gib} }}
}

// Where launch chooses the card, the job gets the one that has room, and holds its need there until it ends.
func TestClaimChooses(t *testing.T) {
	here(t)
	r := twoCards(Any)
	h, err := r.Claim(t.Context(), nil, need(1), Patience{})
	if err != nil || h == nil {
		t.Fatal(h, err)
	}
	if held := Claims(); len(held) != 1 || held[0].ID != "GPU-b" || held[0].Bytes != 10*gib {
		t.Errorf("claimed is %+v", held)
	}
	if r.Device.UUID != "GPU-b" || r.Devices != 1 || Names(h.Devices()) != "GPU-b" {
		t.Errorf("the room is that of %s, %d cards; the hold is of %s", r.Device.UUID, r.Devices, Names(h.Devices()))
	}
	h.Release()
	if held := Claims(); len(held) != 0 {
		t.Errorf("after the end: %+v", held)
	}
}

// Where the user named the card, it is that one, full or not: the job runs as typed.
func TestClaimOfTheNamedCard(t *testing.T) {
	here(t)
	r := twoCards("auto")
	h, err := r.Claim(t.Context(), nil, need(0), Patience{})
	if err != nil || h == nil {
		t.Fatal(h, err)
	}
	defer h.Release()
	if held := Claims(); len(held) != 1 || held[0].ID != "GPU-a" || held[0].Bytes > 4*gib {
		t.Errorf("claimed is %+v, of 4 GiB that are free", held)
	}
	if r.Device.UUID != "GPU-a" || r.Devices != 2 {
		t.Errorf("the room is that of %s, %d cards", r.Device.UUID, r.Devices)
	}
}

// A plan names the card that a run would get, and claims nothing.
func TestPrefer(t *testing.T) {
	here(t)
	for device, want := range map[string]string{Any: "GPU-b", "auto": "GPU-a"} {
		r := twoCards(device)
		if err := r.Prefer(nil, need(1)); err != nil || r.Device.UUID != want {
			t.Errorf("%s: %s, want %s: %v", device, r.Device.UUID, want, err)
		}
	}
	if held := Claims(); len(held) != 0 {
		t.Errorf("claimed is %+v", held)
	}
}
