package gpu

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	same := []Device{{UUID: "GPU-aa11", Name: "A"}, {UUID: "GPU-aa22", Name: "A"}, {UUID: "GPU-bb33", Name: "A"}}
	mixed := []Device{{UUID: "GPU-aa11", Name: "A"}, {UUID: "GPU-bb33", Name: "B"}}
	mig := []Device{{UUID: "GPU-cc", Name: "C", MIG: true}, {UUID: "MIG-1", Name: "C 1g", Parent: "GPU-cc"}, {UUID: "MIG-2", Name: "C 1g", Parent: "GPU-cc"}, {UUID: "GPU-dd", Name: "C"}}
	for _, tt := range []struct {
		env    []string
		all    []Device
		want   string
		unsure bool
		fails  bool
	}{
		{nil, same, "GPU-aa11 GPU-aa22 GPU-bb33", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=2,0"}, same, "GPU-bb33 GPU-aa11", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES= 1 "}, same, "GPU-aa22", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=0,9,1"}, same, "GPU-aa11", false, false}, // CUDA stops at the first that is none
		{[]string{"CUDA_VISIBLE_DEVICES=9"}, same, "", false, true},
		{[]string{"CUDA_VISIBLE_DEVICES="}, same, "", false, true},
		{[]string{"CUDA_VISIBLE_DEVICES=-1"}, same, "", false, true},
		{[]string{"CUDA_VISIBLE_DEVICES=NoDevFiles"}, same, "", false, true},
		{[]string{"CUDA_VISIBLE_DEVICES=GPU-bb"}, same, "GPU-bb33", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=GPU-aa"}, same, "", false, true}, // two of them
		{[]string{"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"}, same, "GPU-aa22", false, false},
		{nil, mixed, "GPU-aa11 GPU-bb33", true, false},
		{[]string{"CUDA_VISIBLE_DEVICES=1"}, mixed, "GPU-bb33", true, false},
		{[]string{"CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}, mixed, "GPU-bb33", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=GPU-bb33"}, mixed, "GPU-bb33", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=MIG-2"}, mig, "MIG-2", false, false},
		{[]string{"CUDA_VISIBLE_DEVICES=0"}, mig, "MIG-1", true, false}, // a card that is cut is its first slice
	} {
		seen, unsure, err := Visible(tt.env, tt.all)
		var got []string
		for _, d := range seen {
			got = append(got, d.UUID)
		}
		if s := strings.Join(got, " "); s != tt.want || unsure != tt.unsure || (err != nil) != tt.fails {
			t.Errorf("%q of %d: %q, unsure %v, %v; want %q, unsure %v, fails %v", tt.env, len(tt.all), s, unsure, err, tt.want, tt.unsure, tt.fails)
		}
	}
}

// What ROCm and Level Zero leave of the cards: by amd_filter_device.cpp and rocdevice.cpp of ROCm/rocm-systems, and the
// programming guide of Level Zero.
func TestVisibleOfOthers(t *testing.T) {
	hip := []Device{{Kind: HIP, UUID: "GPU-aa00000000000001"}, {Kind: HIP, Index: 1, UUID: "GPU-aa00000000000002"},
		{Kind: HIP, Index: 3, UUID: "GPU-bb00000000000003"}} // 2 is the processor's
	ze := []Device{{Kind: XPU, UUID: "pci-a"}, {Kind: XPU, Index: 1, UUID: "pci-b"}, {Kind: XPU, Index: 2, UUID: "pci-c"}}
	for _, tt := range []struct {
		env  string
		all  []Device
		want string // indices; "!" and the variable of the error
	}{
		{"", hip, "0 1 3"},
		{"HIP_VISIBLE_DEVICES=3,0", hip, "3 0"},
		{"HIP_VISIBLE_DEVICES=2", hip, "!HIP_VISIBLE_DEVICES"},
		{"HIP_VISIBLE_DEVICES=1,1", hip, "1"},
		{"HIP_VISIBLE_DEVICES=1, 0", hip, "1"}, // HIP takes no space
		{"HIP_VISIBLE_DEVICES=1,7,0", hip, "1"},
		{"HIP_VISIBLE_DEVICES=-1", hip, "!HIP_VISIBLE_DEVICES"},
		{"HIP_VISIBLE_DEVICES=", hip, "0 1 3"},
		{"HIP_VISIBLE_DEVICES=GPU-bb", hip, "3"},
		{"CUDA_VISIBLE_DEVICES=1", hip, "1"},
		{"CUDA_VISIBLE_DEVICES=", hip, "0 1 3"}, // CUDA would hide all
		{"HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=1", hip, "0"},
		{"HIP_VISIBLE_DEVICES= CUDA_VISIBLE_DEVICES=1", hip, "1"},
		{"ROCR_VISIBLE_DEVICES=1,3", hip, "1 3"},
		{"ROCR_VISIBLE_DEVICES=3,1 HIP_VISIBLE_DEVICES=0", hip, "3"}, // HIP counts what is left
		{"ROCR_VISIBLE_DEVICES=3,1 HIP_VISIBLE_DEVICES=2", hip, "!HIP_VISIBLE_DEVICES"},
		{"ROCR_VISIBLE_DEVICES=gpu-bb,0", hip, "3 0"},
		{"ROCR_VISIBLE_DEVICES=GPU-aa", hip, "!ROCR_VISIBLE_DEVICES"}, // two of them
		{"ROCR_VISIBLE_DEVICES=0,0,1", hip, "0"},                      // a second time ends the list
		{"ROCR_VISIBLE_DEVICES=", hip, "!ROCR_VISIBLE_DEVICES"},
		{"", ze, "0 1 2"},
		{"ZE_AFFINITY_MASK=", ze, "0 1 2"},
		{"ZE_AFFINITY_MASK=2,0.1", ze, "0 2"},
		{"ZE_AFFINITY_MASK=5", ze, "!ZE_AFFINITY_MASK"},
		{"CUDA_VISIBLE_DEVICES=1", ze, "0 1 2"},
	} {
		env := strings.Fields(tt.env)
		seen, _, err := Visible(env, tt.all)
		got := indices(seen)
		if e := (*ErrVisible)(nil); errors.As(err, &e) {
			got = "!" + e.Name
		}
		if got != tt.want {
			t.Errorf("%q of %d cards: %s, want %s", tt.env, len(tt.all), got, tt.want)
		}
		if len(seen) == 0 {
			continue
		}
		last := seen[len(seen)-1:] // given only this one, a program sees it
		if again, _, err := Visible(Narrow(env, last, tt.all), tt.all); err != nil || indices(again) != indices(last) {
			t.Errorf("%q narrowed to %s: %q, %s, %v", tt.env, indices(last), Narrow(env, last, tt.all), indices(again), err)
		}
	}
}

func TestPick(t *testing.T) {
	all := []Device{{UUID: "GPU-aa/1"}, {Index: 1, UUID: "GPU-aa/10"}, {Index: 2, UUID: "soc"}}
	for list, want := range map[string]string{"0": "0", "2,0": "2 0", "1,": "1", ",": "", "0,,1": "",
		"GPU-aa/1": "0", "gpu-aa/10": "1", "SOC": "2",
		"GPU-aa": "", "3": "", "": "", "0,x": ""} {
		picked, ok := Pick(list, all)
		if ok != (want != "") || ok && indices(picked) != want {
			t.Errorf("%q: %s, %v; want %q", list, indices(picked), ok, want)
		}
	}
}

func indices(all []Device) string {
	var out []string
	for _, d := range all {
		out = append(out, strconv.Itoa(d.Index))
	}
	return strings.Join(out, " ")
}
