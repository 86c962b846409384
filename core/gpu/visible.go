package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The variables that hide cards from a program. ROCm has two: the first is of its lowest layer, and the other one
// counts what that leaves. HIP reads CUDA's where its own is empty.
const (
	cudaMask = "CUDA_VISIBLE_DEVICES"
	rocrMask = "ROCR_VISIBLE_DEVICES"
	hipMask  = "HIP_VISIBLE_DEVICES"
	zeMask   = "ZE_AFFINITY_MASK"
)

// masks are the variables that a program on a kind of card reads.
var masks = map[string][]string{CUDA: {cudaMask}, HIP: {rocrMask, hipMask, cudaMask}, XPU: {zeMask}}

// ErrVisible reports a variable that names no device here.
type ErrVisible struct{ Name, Value, Why string }

func (e *ErrVisible) Error() string { return fmt.Sprintf("%s=%s: %s", e.Name, e.Value, e.Why) }

// Visible returns the devices that a program started with env would see, in its order, by the variables that their
// kind of program reads. All are of one kind.
//
// With indices and without CUDA_DEVICE_ORDER=PCI_BUS_ID the CUDA runtime numbers the fastest card first, which NVML
// does not tell; unsure is then true if the devices differ.
func Visible(env []string, all []Device) (seen []Device, unsure bool, err error) {
	switch kindOf(all) {
	case HIP:
		seen, err = visibleHIP(env, all)
		return seen, false, err
	case XPU:
		seen, err = visibleXPU(env, all)
		return seen, false, err
	}
	return visibleCUDA(env, all)
}

// Narrowed returns the variable with which env hides cards of this kind from a program; "" if it hides none.
func Narrowed(env []string, all []Device) string {
	kind := kindOf(all)
	for _, name := range masks[kind] {
		if v, set := Lookup(env, name); set && (v != "" || name == cudaMask && kind == CUDA || name == rocrMask) {
			return name
		}
	}
	return ""
}

// Narrow returns the environment in which a program sees some of all devices and no other.
func Narrow(env []string, to, all []Device) []string {
	kind, value := kindOf(to), []string(nil)
	name := map[string]string{HIP: hipMask, XPU: zeMask}[kind]
	byIndex := false
	for _, d := range to {
		at := strconv.Itoa(d.Index)
		switch kind {
		case HIP: // its indices count what the other variable leaves
			at = strconv.Itoa(slices.IndexFunc(underROCR(env, all), func(s *Device) bool {
				return s != nil && s.UUID == d.UUID
			}))
		case XPU:
		default:
			name = cudaMask
			if strings.HasPrefix(d.UUID, "GPU-") || strings.HasPrefix(d.UUID, "MIG-") {
				at = d.UUID
			} else {
				byIndex = true
			}
		}
		value = append(value, at)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		variable, _, _ := strings.Cut(kv, "=")
		return variable == name || kind == HIP && variable == cudaMask
	})
	env = append(env, name+"="+strings.Join(value, ","))
	if byIndex {
		env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	}
	return env
}

// Pick returns the devices of a list of indices and UUIDs, or of their beginnings: that of the machine, whatever a
// variable hides. The comma after a list of one may be there. ok is false if one of them names no device, or several.
func Pick(list string, all []Device) (picked []Device, ok bool) {
	cards := whole(all)
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if i, err := strconv.Atoi(entry); err == nil {
			at := slices.IndexFunc(cards, func(d Device) bool { return d.Index == i })
			if at < 0 {
				return nil, false
			}
			picked = append(picked, cards[at])
			continue
		}
		var hits []Device
		for _, d := range all {
			if strings.EqualFold(d.UUID, entry) {
				hits = []Device{d}
				break
			}
			if entry != "" && strings.HasPrefix(strings.ToLower(d.UUID), entry) {
				hits = append(hits, d)
			}
		}
		if len(hits) != 1 {
			return nil, false
		}
		picked = append(picked, hits[0])
	}
	return picked, true
}

func kindOf(all []Device) string {
	if len(all) == 0 {
		return CUDA
	}
	return all[0].Kind
}

// visibleCUDA stops at the first entry that names no device, as CUDA does; entries are indices, (prefixes of) UUIDs of
// cards "GPU-…" and of slices "MIG-…".
func visibleCUDA(env []string, all []Device) (seen []Device, unsure bool, err error) {
	value, set := Lookup(env, cudaMask)
	order, _ := Lookup(env, "CUDA_DEVICE_ORDER")
	mixed := order != "PCI_BUS_ID" && slices.ContainsFunc(all, func(d Device) bool { return d.Name != all[0].Name || d.Total != all[0].Total })
	cards := whole(all)
	if !set {
		return cards, mixed, nil
	}
	if strings.TrimSpace(value) == "" || strings.TrimSpace(value) == "-1" || value == "NoDevFiles" {
		return nil, false, &ErrVisible{cudaMask, value, "hides every device from the program"}
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
		return nil, false, &ErrVisible{cudaMask, value, fmt.Sprintf("names none of the %d devices here", len(all))}
	}
	return seen, unsure, nil
}

// visibleHIP reads the variables as ROCR-Runtime (amd_filter_device.cpp) and HIP (rocclr, rocdevice.cpp, Device::init)
// do: both stop at the first entry that names no card; a UUID may be shortened; a card named twice ends the first list,
// and counts once in the second; an empty ROCR_VISIBLE_DEVICES hides all cards, and an empty other one none.
func visibleHIP(env []string, all []Device) ([]Device, error) {
	left := underROCR(env, all)
	if value, set := Lookup(env, rocrMask); set && !slices.ContainsFunc(left, func(d *Device) bool { return d != nil }) {
		return nil, hidden(rocrMask, value, len(all))
	}
	name := hipMask
	value, _ := Lookup(env, name)
	if value == "" {
		name = cudaMask
		value, _ = Lookup(env, name)
	}
	if value != "" {
		left = entries(value, left, false)
	}
	var seen []Device
	for _, d := range left {
		if d != nil {
			seen = append(seen, *d)
		}
	}
	if value != "" && len(seen) == 0 {
		return nil, hidden(name, value, len(all))
	}
	return seen, nil
}

func hidden(name, value string, all int) error {
	if value == "" || value == "-1" {
		return &ErrVisible{name, value, "hides every device from the program"}
	}
	return &ErrVisible{name, value, fmt.Sprintf("names none of the %d devices here", all)}
}

// underROCR returns what HIP's indices count: nil for a card that is not listed, such as a processor's own.
func underROCR(env []string, all []Device) (left []*Device) {
	for i, d := range all {
		for len(left) <= d.Index {
			left = append(left, nil)
		}
		left[d.Index] = &all[i]
	}
	if value, set := Lookup(env, rocrMask); set {
		left = entries(value, left, true)
	}
	return left
}

// entries returns the cards of a list; rocr: by the rules of ROCR_VISIBLE_DEVICES.
func entries(list string, cards []*Device, rocr bool) (out []*Device) {
	named := map[int]bool{}
	for entry := range strings.SplitSeq(list, ",") {
		if rocr {
			entry = strings.TrimSpace(entry)
		}
		at := -1
		if strings.HasPrefix(strings.ToUpper(entry), "GPU-") {
			at = uuidAt(entry, cards)
		} else if i, err := strconv.Atoi(entry); err == nil {
			at = i
		}
		switch {
		case at < 0, at >= len(cards), named[at] && rocr:
			return out
		case !named[at]:
			named[at] = true
			out = append(out, cards[at])
		}
	}
	return out
}

// uuidAt is the place of the only card whose UUID begins so; -1: there is none, or more than one.
func uuidAt(begin string, cards []*Device) int {
	at := -1
	for i, d := range cards {
		if d == nil || !strings.HasPrefix(strings.ToUpper(d.UUID), strings.ToUpper(begin)) {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = i
	}
	return at
}

// visibleXPU reads ZE_AFFINITY_MASK (Level Zero, core programming guide, "Affinity Mask"): "0,2" or, of parts of a
// card, "0.1". It hides cards and does not order them. An entry that names no card is passed over.
func visibleXPU(env []string, all []Device) (seen []Device, err error) {
	value, _ := Lookup(env, zeMask)
	if value == "" {
		return all, nil
	}
	named := map[string]bool{}
	for entry := range strings.SplitSeq(value, ",") {
		card, _, _ := strings.Cut(strings.TrimSpace(entry), ".")
		named[card] = true
	}
	for _, d := range all {
		if named[strconv.Itoa(d.Index)] {
			seen = append(seen, d)
		}
	}
	if len(seen) == 0 {
		return nil, hidden(zeMask, value, len(all))
	}
	return seen, nil
}
