package unit

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Bytes{
		"8GiB": 8 * GiB, "8 GB": 8 * GiB, "8g": 8 * GiB, " 8192 MiB ": 8 * GiB, "137438953472": 128 * GiB,
		"11.63GiB": 12487617413, "0": 0, "1.5k": 1536, "512 bytes": 512, "2TiB": 2 * TiB,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GiB", "-1GiB", "8XB", "8 GiB free", "1e3", "9999999999TiB", "1.2.3G", "99999999999999999999"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", in, got)
		}
	}
}

func TestDecimal(t *testing.T) {
	for in, want := range map[string]bool{"8GB": true, "500 mb ": true, "8GiB": false, "8g": false, "100 b": false,
		"": false, "GB": false} {
		if got := Decimal(in); got != want {
			t.Errorf("Decimal(%q) = %v", in, got)
		}
	}
}

func TestString(t *testing.T) {
	for in, want := range map[Bytes]string{
		0: "0 B", 512: "512 B", 1536: "1.50 KiB", 128 * GiB: "128 GiB", -20 * MiB: "-20.0 MiB", 12487617413: "11.6 GiB",
		math.MinInt64: "-8388608 TiB",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d prints %q, want %q", int64(in), got, want)
		}
	}
}
