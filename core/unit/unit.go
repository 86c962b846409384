// Package unit holds amounts of memory as whole bytes, reads and prints them with binary prefixes, and shortens texts
// for people.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is an amount of memory, or a difference of two. It is signed: an unsigned difference
// underflows into an amount that no card has.
type Bytes int64

// The binary prefixes of IEC 80000-13. PyTorch, NVML's tools and Slurm all count in them, whatever they print.
const (
	B   Bytes = 1
	KiB       = 1024 * B
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
	TiB       = 1024 * GiB
)

// String prints b with three significant digits or so: "512 B", "1.51 GiB", "-20.0 MiB".
func (b Bytes) String() string {
	abs := b
	if abs < 0 {
		abs = -abs
	}
	if abs < 0 { // math.MinInt64 has no positive counterpart
		abs = math.MaxInt64
	}
	for _, p := range []struct {
		size Bytes
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if abs >= p.size {
			v := float64(b) / float64(p.size)
			if math.Abs(v) >= 100 {
				return fmt.Sprintf("%.0f %s", v, p.name)
			}
			if math.Abs(v) >= 10 {
				return fmt.Sprintf("%.1f %s", v, p.name)
			}
			return fmt.Sprintf("%.2f %s", v, p.name)
		}
	}
	return fmt.Sprintf("%d B", int64(b))
}

// Round returns b rounded half up to a multiple of to.
func (b Bytes) Round(to Bytes) Bytes { return (b + to/2) / to * to }

var suffixes = map[string]Bytes{
	"": B, "b": B, "byte": B, "bytes": B,
	"k": KiB, "kb": KiB, "kib": KiB,
	"m": MiB, "mb": MiB, "mib": MiB,
	"g": GiB, "gb": GiB, "gib": GiB,
	"t": TiB, "tb": TiB, "tib": TiB,
}

// Parse reads what people type and programs print: "8GiB", "8 GB", "11.63g", "8192MiB", "137438953472".
// Every prefix is binary, as on the cards themselves: nvidia-smi's "24 GB" card has 24 GiB.
func Parse(s string) (Bytes, error) {
	t := strings.TrimSpace(s)
	end := 0
	for end < len(t) && (t[end] >= '0' && t[end] <= '9' || t[end] == '.') {
		end++
	}
	size, known := suffixes[strings.ToLower(strings.TrimSpace(t[end:]))]
	if end == 0 || !known {
		return 0, fmt.Errorf("%q is not an amount of memory, such as 8GiB or 8192MiB", s)
	}
	if n, err := strconv.ParseInt(t[:end], 10, 64); err == nil {
		if n > math.MaxInt64/int64(size) {
			return 0, fmt.Errorf("%q is more memory than can be counted", s)
		}
		return Bytes(n) * size, nil
	}
	v, err := strconv.ParseFloat(t[:end], 64)
	if err != nil || v*float64(size) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not an amount of memory, such as 8GiB or 8192MiB", s)
	}
	return Bytes(math.Round(v * float64(size))), nil
}

// Decimal reports whether an amount has a prefix that others read as a decimal one: "8 GB", where [Parse] reads 8 GiB.
func Decimal(s string) bool {
	t := strings.ToLower(strings.TrimSpace(s))
	return len(t) > 2 && t[len(t)-1] == 'b' && strings.IndexByte("kmgt", t[len(t)-2]) >= 0
}

// Known is an amount that may be unknown: nil for 0.
func Known(b Bytes) *Bytes {
	if b == 0 {
		return nil
	}
	return &b
}

// Value is such an amount, 0 if it is unknown.
func Value(b *Bytes) Bytes {
	if b == nil {
		return 0
	}
	return *b
}
