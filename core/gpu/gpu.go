// Package gpu holds what is known of the devices that a job may run on: values, no driver.
package gpu

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// The kinds of device.
const (
	CUDA = "cuda"
	HIP  = "hip" // AMD's, under ROCm
	XPU  = "xpu" // Intel's, under Level Zero
	CPU  = "cpu" // the host's memory is the room
)

// A Device is a GPU, a MIG slice of one, or the host.
type Device struct {
	Kind  string `json:"kind"`
	Index int    `json:"index"` // in the driver's order: of NVML, of ROCm without a mask, of the PCI bus
	// UUID tells the card from all others, for as long as the machine runs: the driver's own ("GPU-…", "MIG-…"), else
	// where the card is ("pci-0000:03:00.0", "soc").
	UUID  string     `json:"uuid,omitempty"`
	Name  string     `json:"name"`
	Total unit.Bytes `json:"total_bytes"` // 0: not known; what the driver can give out, its own reserve taken off
	Used  unit.Bytes `json:"used_bytes"`  // by everybody, when it was looked at
	// Reserved is what the driver keeps for itself; null: not known.
	Reserved *unit.Bytes `json:"reserved_bytes"`
	// Capability is the CUDA compute capability, "8.6"; empty where it is not known.
	Capability string `json:"capability,omitempty"`
	// Arch is AMD's name of the architecture, "gfx942"; empty for other cards.
	Arch   string `json:"arch,omitempty"`
	Driver string `json:"driver,omitempty"`
	// Shared: the card has no memory of its own. Total is the machine's, and Used is what all programs hold of that.
	Shared bool `json:"shared,omitempty"`
	// Busy is how much of the driver's last sample period a kernel ran, in percent; nil if that is not known. No document
	// has it: it is of a moment, and plugins must not price by it.
	Busy *int `json:"-"`
	// Asked is the program that reported the card where NVIDIA's library could not be asked; "" otherwise. No
	// document has it.
	Asked     string    `json:"-"`
	MIG       bool      `json:"mig,omitempty"`
	Parent    string    `json:"parent,omitempty"` // of a MIG slice: the UUID of its card
	Processes []Process `json:"processes,omitempty"`
	Planned   bool      `json:"planned,omitempty"` // the card is not here: --vram
	// TotalFrom is where the total of a planned card is from, if the card was named.
	TotalFrom string `json:"total_from,omitempty"`
	// TotalSource is the log that prints it: a repository with its issue or file, or words of the log, in quotes.
	TotalSource string `json:"total_source,omitempty"`
}

// OnCard reports whether a program on the device runs on a card, and not on the host.
func (d Device) OnCard() bool { return d.Kind == CUDA || d.Kind == HIP || d.Kind == XPU }

// Reporter is what the figures of a card are read from.
func (d Device) Reporter() string {
	switch {
	case d.Asked != "":
		return d.Asked
	case d.Kind == CUDA && d.UUID != onSoC:
		return "NVML"
	}
	return "the kernel's files"
}

// onSoC is the UUID of the card of a Jetson, where NVML cannot be asked.
const onSoC = "soc"

// Free is what a new process can take.
func (d Device) Free() unit.Bytes { return max(0, d.Total-d.Used) }

// A Process holds memory on a device.
type Process struct {
	PID  int        `json:"pid"`            // of the host; in a container it names nobody
	Used unit.Bytes `json:"used_bytes"`     // -1 where the driver does not say (WSL, WDDM)
	Name string     `json:"name,omitempty"` // of its program, where it can be read
	User string     `json:"user,omitempty"` // its owner, where it can be read
}

// Leaves returns the devices that a program can be given one by one: the cards that are not cut into slices, and the
// slices of those that are.
func Leaves(all []Device) []Device {
	return slices.DeleteFunc(slices.Clone(all), func(d Device) bool {
		return d.Parent == "" && slices.ContainsFunc(all, func(s Device) bool { return s.Parent == d.UUID && s.Parent != "" })
	})
}

// whole returns the cards by index. Of a card that is cut into MIG slices a program sees the first slice only.
func whole(all []Device) []Device {
	cards := slices.DeleteFunc(slices.Clone(all), func(d Device) bool { return d.Parent != "" })
	for i, c := range cards {
		if s := slices.IndexFunc(all, func(d Device) bool { return d.Parent == c.UUID }); s >= 0 {
			cards[i] = all[s]
		}
	}
	return cards
}

// Lookup returns a variable of an environment; of several the last.
func Lookup(env []string, name string) (value string, set bool) {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
