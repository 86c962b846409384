package gpu

import (
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
