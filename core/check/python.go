package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
)

// interpreter checks the Python of the command.
func interpreter(m Machine) []Finding {
	if m.Python.Err != nil {
		return unseen(m.Python.Err)
	}
	p := m.Python.Value
	switch {
	case p.Interpreter == "" && p.Command == "":
		return finding(Absent, "the command starts no Python that launch can find", "")
	case p.Interpreter == "":
		return finding(Unseen, p.Command+": its interpreter is not known", "a wrapper chooses it when it starts")
	case !p.Exists:
		return finding(Wrong, p.Interpreter+" does not exist", "the command cannot start", "command -v python3 python")
	}
	found := p.Interpreter
	if p.Version != "" {
		found += ", Python " + p.Version
	}
	for _, name := range []string{"PYTHONHOME", "PYTHONPATH"} {
		if v := m.variable(name); v != "" {
			return finding(Remark, found+"; "+name+"="+v, "modules there come before the installed ones; launch does not look "+
				"for packages in them", "unset "+name)
		}
	}
	return finding(Right, found, "")
}

// driverOf is the oldest major version of the driver for each major version of CUDA (docs.nvidia.com/deploy/
// cuda-compatibility, "Minor Version Compatibility", table 1).
var driverOf = map[int]int{11: 450, 12: 525, 13: 580}

// firstCUDA is the first CUDA whose compiler makes code for a major compute capability (CUDA Toolkit release notes:
// 11.0 for 8.0, 11.8 for 9.0, 12.8 for 10.0 and 12.0).
var firstCUDA = map[int]float64{8: 11.0, 9: 11.8, 10: 12.8, 12: 12.8}

// torch checks torch's build against the driver, the card and the packages beside it.
func torch(m Machine) []Finding {
	p := m.Python.Value
	switch {
	case m.Python.Err != nil:
		return unseen(m.Python.Err)
	case p.Interpreter == "" || !p.Exists:
		return finding(Absent, "no Python", "")
	case !p.Known:
		return finding(Unseen, "the packages of "+p.Interpreter+" were not found",
			"a wrapper (pyenv, conda run) or an unusual folder", p.Interpreter+" -c 'import torch; print(torch.__version__)'")
	case !p.HasTorch && m.variable("PYTHONPATH") != "":
		return finding(Unseen, "torch is not among the packages of "+p.Interpreter, "PYTHONPATH may hold it")
	case !p.HasTorch && p.Assumed:
		return finding(Remark, "torch is not installed for "+p.Interpreter, "the command may use another Python",
			"launch doctor -- COMMAND")
	case !p.HasTorch:
		return finding(Wrong, "torch is not installed for "+p.Interpreter, "a PyTorch program cannot start; a program "+
			"of another framework can", p.Interpreter+" -m pip install torch")
	case p.Torch == "":
		return finding(Unseen, "torch is there, but its version is not", "it may be installed twice",
			p.Interpreter+" -m pip show --files torch | head")
	}
	found := "torch " + p.Torch
	switch p.CUDA {
	case "none":
		found += ", without CUDA"
	case "":
	default:
		found += ", for CUDA " + p.CUDA
	}
	out := append(m.torchAndCard(found), beside(p)...)
	if len(out) == 0 {
		return finding(Right, found, "")
	}
	return out
}

// torchAndCard compares torch's CUDA with the driver and the cards.
func (m Machine) torchAndCard(found string) []Finding {
	if m.Cards.Err != nil || len(m.Cards.Value) == 0 {
		return nil
	}
	p, card := m.Python.Value, m.Cards.Value[0]
	if card.Kind != gpu.CUDA {
		return torchAndOther(p, card, found)
	}
	have := major(card.Driver)
	if p.CUDA == "none" {
		return finding(Wrong, found, "it cannot use the card: the training runs on the CPU, or fails", reinstall(p, have,
			card))
	}
	cuda, err := strconv.ParseFloat(p.CUDA, 64) // "12.8"; no minor version has had two digits
	if err != nil {
		return nil
	}
	if need := driverOf[int(cuda)]; need > have && have > 0 {
		return finding(Wrong, found+"; driver "+card.Driver,
			fmt.Sprintf("CUDA %d needs driver %d or newer: torch finds no card",
				int(cuda), need), "update the driver: "+install(m.Driver.Value.OS), reinstall(p, have, card))
	}
	capability, err := strconv.ParseFloat(card.Capability, 64)
	switch first := firstCUDA[major(card.Capability)]; {
	case err != nil:
	case cuda < first:
		return finding(Wrong, fmt.Sprintf("%s; %s has compute capability %s", found, card.Name, card.Capability),
			fmt.Sprintf("code for this card needs torch for CUDA %.1f or newer: \"no kernel image is available\"", first),
			reinstall(p, have, card))
	case cuda >= 13 && capability < 7.5: // CUDA 13.0 release notes, "Deprecated Architectures"
		return finding(Wrong, fmt.Sprintf("%s; %s has compute capability %s", found, card.Name, card.Capability),
			"CUDA 13 has no code for cards below 7.5: \"no kernel image is available\"", reinstall(p, have, card))
	}
	return nil
}

// torchAndOther checks that torch is built for a card of AMD's or Intel's. A build for ROCm tells no CUDA.
func torchAndOther(p Python, card gpu.Device, found string) []Finding {
	whose, index := "ROCm", "rocm6.4"
	if card.Kind == gpu.XPU {
		whose, index = "Intel's cards", "xpu"
	}
	if p.CUDA == "" || strings.Contains(p.Torch, "+"+strings.TrimRight(index, "0123456789.")) {
		return nil
	}
	state := Wrong
	if card.Shared { // the graphics of a processor, for which few train
		state = Remark
	}
	return finding(state, found, fmt.Sprintf("only a torch that is built for %s can use %s: the training runs on the "+
		"CPU, or fails", whose, card.Name),
		p.Interpreter+" -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/"+index)
}

// reinstall returns the command that installs a torch for this driver and card.
func reinstall(p Python, driver int, card gpu.Device) string {
	build := "cu118"
	switch c := major(card.Capability); {
	case driver >= driverOf[12] && (c == 10 || c == 12):
		build = "cu128"
	case driver >= driverOf[12]:
		build = "cu126"
	}
	return p.Interpreter + " -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/" + build
}

// beside checks packages that were compiled against torch or beside it.
func beside(p Python) (out []Finding) {
	if major(p.NumPy) >= 2 && (p.Major < 2 || p.Major == 2 && p.Minor < 3) {
		// torch 2.3.0 is the first release built against NumPy 2 (pytorch#107302)
		out = append(out, finding(Wrong, fmt.Sprintf("torch %s and numpy %s", p.Torch, p.NumPy),
			"torch before 2.3 was compiled for NumPy 1: tensor.numpy() fails", p.Interpreter+" -m pip install 'numpy<2'")...)
	}
	for _, b := range p.Beside {
		if why := unmet(b.Needs, p.Torch); why != "" {
			out = append(out, finding(Wrong, fmt.Sprintf("torch %s and %s %s", p.Torch, b.Name, b.Version), fmt.Sprintf(
				"%s %s was compiled for torch %s: \"operator torchvision::nms does not exist\" and the like", b.Name,
				b.Version, why), fmt.Sprintf("%s -m pip install --upgrade 'torch==%s' %s", p.Interpreter, release(p.Torch),
				b.Name))...)
		}
	}
	return out
}

// unmet returns the part of a requirement that a version does not meet; "" if it meets all that launch understands.
func unmet(needs, version string) string {
	version = release(version)
	for need := range strings.SplitSeq(needs, ",") {
		if want, ok := strings.CutPrefix(need, "=="); ok && !strings.Contains(want, "*") && compare(version, want) != 0 {
			return want
		}
		if want, ok := strings.CutPrefix(need, ">="); ok && compare(version, want) < 0 {
			return want + " or newer"
		}
	}
	return ""
}

// release is a version without its build: 2.6.0 of 2.6.0+cu124.
func release(version string) string {
	number, _, _ := strings.Cut(version, "+")
	return number
}

// compare compares the numbers of two versions. It is 0 where one of them is no plain version.
func compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := 0, 0
		var bad, worse error
		if i < len(as) {
			x, bad = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, worse = strconv.Atoi(bs[i])
		}
		if bad != nil || worse != nil {
			return 0
		}
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	return 0
}

// major is the first number of a version, 0 if there is none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// The names of the allocator's variables (c10/core/AllocatorConfig.h).
const (
	olderConf = "PYTORCH_CUDA_ALLOC_CONF"
	newerConf = "PYTORCH_ALLOC_CONF"
	uncached  = "PYTORCH_NO_CUDA_MEMORY_CACHING"
)

// allocator checks the settings of torch's caching allocator.
func allocator(m Machine) (out []Finding) {
	older, newer := m.variable(olderConf), m.variable(newerConf)
	add := func(state MachineState, found, why string, mend ...string) {
		out = append(out, finding(state, found, why, mend...)...)
	}
	if m.variable(uncached) != "" {
		add(Wrong, uncached+"="+m.variable(uncached), "every tensor asks the driver for memory: training is many times "+
			"slower", "unset "+uncached)
	}
	p := m.Python.Value
	version := p.Major*100 + p.Minor // 0: not known
	if older != "" && newer != "" && older != newer {
		add(Remark, olderConf+" and "+newerConf+" differ", "torch reads "+olderConf+" only", "unset "+newerConf)
	}
	if older == "" && newer != "" && version > 0 && version < 209 {
		add(Remark, newerConf+"="+newer, fmt.Sprintf("torch %s does not read this variable", p.Torch),
			"export "+olderConf+"="+newer, "unset "+newerConf)
		return out
	}
	name, conf := olderConf, older
	if older == "" {
		name, conf = newerConf, newer
	}
	var safe []string
	for _, o := range options(conf) {
		if why := m.unsafe(conf, o[0], o[1], version); why != "" {
			add(Wrong, name+" has "+o[0]+":"+o[1], why)
		} else {
			safe = append(safe, o[0]+":"+o[1])
		}
	}
	if n := len(options(conf)) - len(safe); n > 0 { // one command takes out all of them
		out[len(out)-1].Mend = []string{setting(name, safe)}
	}
	switch {
	case len(out) > 0:
	case conf == "":
		out = finding(Right, "no setting of the allocator", "")
	default:
		out = finding(Right, name+"="+conf, "")
	}
	return out
}

// options splits a configuration: name:value, separated by commas. A value in brackets may have commas.
func options(conf string) (out [][2]string) {
	depth, from := 0, 0
	add := func(part string) {
		if part = strings.TrimSpace(part); part != "" {
			name, value, _ := strings.Cut(part, ":")
			out = append(out, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
	}
	for i, c := range conf {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			add(conf[from:i])
			from = i + 1
		}
	}
	add(conf[from:])
	return out
}

// largeBuffer is kLargeBuffer of CUDACachingAllocator.cpp in MiB: a smaller max_split_size_mb is refused.
const largeBuffer = 20

// unsafe returns why an option is unsafe here; "" if it is not.
func (m Machine) unsafe(conf, key, value string, version int) string {
	number, err := strconv.ParseFloat(value, 64)
	switch {
	case key == "max_split_size_mb" && err == nil && number <= largeBuffer:
		return fmt.Sprintf("torch refuses a value of %d or less, and stops", largeBuffer)
	case key == "garbage_collection_threshold" && err == nil && (number <= 0 || number >= 1):
		return "torch refuses a value outside of 0 to 1, and stops"
	case key != "expandable_segments" || !strings.EqualFold(value, "true"):
		return ""
	case m.inWSL():
		return "the driver of WSL does not support it, and torch can fail or lose memory"
	case strings.Contains(m.Kernel, "tegra"):
		return "the driver of Jetson does not support it"
	case version > 0 && version < 201:
		return fmt.Sprintf("torch %s does not know this option, and stops", m.Python.Value.Torch)
	case slices.Contains(options(conf), [2]string{"backend", "cudaMallocAsync"}):
		return "backend:cudaMallocAsync ignores it: the setting has no effect"
	}
	return ""
}

// setting returns the command that sets a variable to these options.
func setting(name string, options []string) string {
	if len(options) == 0 {
		return "unset " + name
	}
	return "export " + name + "=" + strings.Join(options, ",")
}

// environment checks variables that help to debug and make a training slow.
func environment(m Machine) (out []Finding) {
	for _, v := range []struct{ name, when, why string }{
		{"CUDA_LAUNCH_BLOCKING", "1", "the program waits for every kernel: training is slower"},
		{"TORCH_USE_CUDA_DSA", "1", "it has an effect only where torch was compiled with it"},
		{"PYTORCH_JIT", "0", "scripted code runs without its compiler"},
		{"TORCHDYNAMO_DISABLE", "1", "torch.compile does nothing"},
		{"NCCL_DEBUG", "TRACE", "NCCL prints a line for every call"},
	} {
		if m.variable(v.name) == v.when {
			out = append(out, finding(Remark, v.name+"="+v.when, v.why, "unset "+v.name)...)
		}
	}
	if len(out) == 0 {
		return finding(Right, "no variable that slows a training", "")
	}
	return out
}
