// Package gpu holds what is known of the devices that a job may run on: values, no driver.
package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// The kinds of device.
const (
	CUDA = "cuda"
	CPU  = "cpu" // the host's memory is the room
)

// A Device is a GPU, a MIG slice of one, or the host.
type Device struct {
	Kind  string     `json:"kind"`
	Index int        `json:"index"` // in NVML's order, which is that of the PCI bus
	UUID  string     `json:"uuid,omitempty"`
	Name  string     `json:"name"`
	Total unit.Bytes `json:"total_bytes"` // what the driver can give out, its own reserve taken off
	Used  unit.Bytes `json:"used_bytes"`  // by everybody, when it was looked at
	// Reserved is what the driver keeps for itself; null: not known.
	Reserved *unit.Bytes `json:"reserved_bytes"`
	// Capability is the CUDA compute capability, "8.6"; empty where it is not known.
	Capability string `json:"capability,omitempty"`
	Driver     string `json:"driver,omitempty"`
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

// Free is what a new process can take.
func (d Device) Free() unit.Bytes { return max(0, d.Total-d.Used) }

// A Process holds memory on a device.
type Process struct {
	PID  int        `json:"pid"`            // of the host; in a container it names nobody
	Used unit.Bytes `json:"used_bytes"`     // -1 where the driver does not say (WSL, WDDM)
	Name string     `json:"name,omitempty"` // of its program, where it can be read
	User string     `json:"user,omitempty"` // its owner, where it can be read
}

// ErrVisible reports a CUDA_VISIBLE_DEVICES that names no device here.
type ErrVisible struct{ Value, Why string }

func (e *ErrVisible) Error() string {
	return fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s: %s", e.Value, e.Why)
}

// Visible returns the devices that a CUDA program started with env would see, in its order. Like CUDA it stops at the
// first entry that names no device; entries are indices, (prefixes of) UUIDs of cards "GPU-…" and of slices "MIG-…".
//
// With indices and without CUDA_DEVICE_ORDER=PCI_BUS_ID the CUDA runtime numbers the fastest card first, which NVML
// does not tell; unsure is then true if the devices differ.
func Visible(env []string, all []Device) (seen []Device, unsure bool, err error) {
	value, set := Lookup(env, "CUDA_VISIBLE_DEVICES")
	order, _ := Lookup(env, "CUDA_DEVICE_ORDER")
	mixed := order != "PCI_BUS_ID" && slices.ContainsFunc(all, func(d Device) bool { return d.Name != all[0].Name || d.Total != all[0].Total })
	cards := whole(all)
	if !set {
		return cards, mixed, nil
	}
	if strings.TrimSpace(value) == "" || strings.TrimSpace(value) == "-1" || value == "NoDevFiles" {
		return nil, false, &ErrVisible{value, "hides every device from the program"}
	}
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		i, numeric := strconv.Atoi(entry)
		switch {
		case numeric == nil && i >= 0 && i < len(cards):
			seen, unsure = append(seen, cards[i]), unsure || mixed
		case strings.HasPrefix(entry, "GPU-"), strings.HasPrefix(entry, "MIG-"):
			var hits []Device
			for _, d := range all {
				if strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(entry)) {
					hits = append(hits, d)
				}
			}
			if len(hits) != 1 {
				goto stop
			}
			seen = append(seen, hits[0])
		default:
			goto stop
		}
	}
stop:
	if len(seen) == 0 {
		return nil, false, &ErrVisible{value, fmt.Sprintf("names none of the %d devices here", len(all))}
	}
	return seen, unsure, nil
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
