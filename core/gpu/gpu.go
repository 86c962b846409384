// Package gpu holds what is known of the devices that a job may run on: values, no driver.
package gpu

import (
	"encoding/json"
	"fmt"
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
	UUID string `json:"uuid,omitempty"`
	Name string `json:"name"`
	// Total is what the driver can give out, its own reserve taken off; 0, and null in documents: not known.
	Total unit.Bytes `json:"total_bytes"`
	// Used is what everybody held when it was looked at. Where Total is not known, 0 is not known either, and null.
	Used unit.Bytes `json:"used_bytes"`
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
	Asked  string `json:"-"`
	MIG    bool   `json:"mig,omitempty"`
	Parent string `json:"parent,omitempty"` // of a MIG slice: the UUID of its card
	// Processes hold memory of it, as far as the driver lists them.
	Processes []Process `json:"processes,omitempty"`
	// Unlisted: the driver lists no process of the card, which proves nothing (a vGPU, WSL).
	Unlisted bool `json:"processes_unknown,omitempty"`
	// Fault is what the driver says of a card that no longer answers: "GPU is lost". Nothing else is known of it then
	// but what was read before.
	Fault   string `json:"fault,omitempty"`
	Planned bool   `json:"planned,omitempty"` // the card is not here: --vram
	// TotalFrom is where the total of a planned card is from, if the card was named.
	TotalFrom string `json:"total_from,omitempty"`
	// TotalSource is the log that prints it: a repository with its issue or file, or words of the log, in quotes.
	TotalSource string `json:"total_source,omitempty"`
}

// A Written is a device as documents have it: what is not known is null. A type that embeds a Device writes this in its
// place.
type Written struct {
	plain
	Total *unit.Bytes `json:"total_bytes"`
	Used  *unit.Bytes `json:"used_bytes"`
}

type plain Device

// Written returns what documents have of the device.
func (d Device) Written() Written {
	w := Written{plain: plain(d)}
	if d.Total > 0 || d.Used > 0 {
		w.Used = &d.Used
	}
	if d.Total > 0 {
		w.Total = &d.Total
	}
	return w
}

// MarshalJSON writes [Device.Written].
func (d Device) MarshalJSON() ([]byte, error) { return json.Marshal(d.Written()) }

// Answering returns the devices that answer the driver, and of each other one a clause that says so.
func Answering(all []Device) (answering []Device, why []string) {
	for _, d := range all {
		if d.Fault == "" {
			answering = append(answering, d)
			continue
		}
		why = append(why, fmt.Sprintf("card %d does not answer the driver (%s): %s", d.Index, d.Fault, d.Mend()))
	}
	return answering, why
}

// Mend is what helps a card that does not answer, a clause.
func (d Device) Mend() string {
	if strings.Contains(strings.ToLower(d.Fault), "reset") {
		return fmt.Sprintf("end the programs on it, then sudo nvidia-smi --gpu-reset -i %d, or reboot", d.Index)
	}
	return "sudo dmesg | grep -i -e NVRM -e Xid says why; a reboot brings it back, unless its power or slot is at fault"
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

// Relays reports whether the process is the server of MPS: before Volta all that its clients hold is listed as its own.
func (p Process) Relays() bool { return strings.HasPrefix(p.Name, "nvidia-cuda-mps") }

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
