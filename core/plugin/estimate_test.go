package plugin

import (
	"fmt"
	"strings"
	"testing"
)

func TestBare(t *testing.T) {
	read := func(settings map[string]string) (*Bare, []any) {
		b := &Bare{Arch: "net", Settings: settings}
		h, w := b.Image("image", "64x32")
		return b, []any{b.Int("micro-batch", 2), b.Float("dropout", .5), b.Bool("ema", true), b.OneOf("amp", "off", "fp16"), b.Text("optimizer", "adam"), h, w}
	}
	b, got := read(nil)
	for i, want := range []any{int64(2), .5, true, "off", "adam", int64(64), int64(32)} {
		if got[i] != want {
			t.Errorf("by default value %d is %v, want %v", i, got[i], want)
		}
	}
	if err := b.Err(); err != nil {
		t.Errorf("with nothing said: %v", err)
	}
	b, got = read(map[string]string{"micro-batch": "8", "dropout": "0", "ema": "false", "amp": "FP16", "optimizer": "lars", "image": "17"})
	for i, want := range []any{int64(8), 0., false, "fp16", "lars", int64(17), int64(17)} {
		if got[i] != want {
			t.Errorf("as given value %d is %v, want %v", i, got[i], want)
		}
	}
	if err := b.Err(); err != nil {
		t.Errorf("with everything said: %v", err)
	}
	for name, value := range map[string]string{"micro-batch": "0", "dropout": "much", "ema": "perhaps", "amp": "bf16", "image": "64x", "lq": "64"} {
		b, _ := read(map[string]string{name: value})
		if err := b.Err(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	b, _ = read(map[string]string{"depth": "3", "ratio": "1.5", "bias": "true", "act": "gelu", "split_size": "[8, 16]"})
	args := b.Rest()
	if args["depth"] != int64(3) || args["ratio"] != 1.5 || args["bias"] != true || args["act"] != "gelu" || fmt.Sprint(args["split_size"]) != "[8 16]" || len(args) != 5 || b.Err() != nil {
		t.Errorf("the rest is %v, %v", args, b.Err())
	}
}
