package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/unit"
)

// driver checks that the kernel module of the cards is loaded, and that this user can open its devices.
func driver(m Machine) []Finding {
	if all := m.Cards.Value; len(all) > 0 && all[0].Kind != gpu.CUDA && m.Driver.Err == nil {
		if all[0].Kind == gpu.HIP && m.Driver.Value.KFD != OpenDevice {
			return finding(Wrong, fmt.Sprintf("%s; /dev/kfd is %s", all[0].Driver, m.Driver.Value.KFD),
				"programs of this user cannot open the card: join the group that owns the file", "ls -l /dev/kfd",
				"sudo usermod -aG render,video $USER")
		}
		return finding(Right, all[0].Driver, "")
	}
	if m.Driver.Err != nil {
		return unseen(m.Driver.Err)
	}
	d := m.Driver.Value
	box := m.Container.Value.Kind
	switch {
	case m.inWSL():
		return finding(Right, "the driver of Windows", "")
	case d.Module != "" && d.Control == NoDevice && box != "":
		return finding(Wrong, "kernel module "+d.Module+", and no /dev/nvidiactl",
			"the container was started without the card", startWithCard(box)...)
	case d.Module != "" && d.Control == NoDevice:
		return finding(Wrong, "kernel module "+d.Module+", and no /dev/nvidiactl",
			"programs cannot reach the driver without its device files", "sudo nvidia-modprobe -c 0 -u")
	case d.Module != "" && d.Control == ClosedDevice:
		return finding(Wrong, "kernel module "+d.Module+"; /dev/nvidiactl is closed to you",
			"programs of this user cannot open the card: join the group that owns the file",
			"ls -l /dev/nvidiactl", "sudo usermod -aG video $USER")
	case d.Module != "" && d.UVM != OpenDevice:
		return finding(Wrong, fmt.Sprintf("kernel module %s; /dev/nvidia-uvm is %s", d.Module, d.UVM),
			"nvidia-smi works without it, but CUDA programs fail when they start", "sudo nvidia-modprobe -c 0 -u")
	case d.Module != "":
		return finding(Right, "kernel module "+d.Module, "")
	case len(d.PCI) == 0:
		return finding(Absent, "no NVIDIA card", "")
	case d.Library != "":
		return finding(Wrong, "the driver is installed, but its kernel module is not loaded",
			"this happens after an update of the kernel, or where Secure Boot refuses the module"+onHost(box),
			"sudo modprobe nvidia", "sudo dkms autoinstall && sudo modprobe nvidia")
	case d.Nouveau:
		return finding(Wrong, "the card uses the driver nouveau", "CUDA needs NVIDIA's own driver"+onHost(box),
			install(d.OS), "sudo reboot")
	}
	return finding(Wrong, "an NVIDIA card ("+strings.Join(d.PCI, ", ")+") without a driver",
		"CUDA programs cannot use the card"+onHost(box), install(d.OS), "sudo reboot")
}

func onHost(container string) string {
	if container == "" {
		return ""
	}
	return "; mend it on the machine that runs this container"
}

// startWithCard returns the options that give a container its cards.
func startWithCard(container string) []string {
	switch container {
	case "podman":
		return []string{"podman run --device nvidia.com/gpu=all …"}
	case "apptainer":
		return []string{"apptainer exec --nv …"}
	case "kubernetes":
		return []string{"resources: {limits: {nvidia.com/gpu: 1}}   (in the pod's specification)"}
	}
	return []string{"docker run --gpus all …"}
}

// install returns the command that installs NVIDIA's driver on a distribution.
func install(os string) string {
	switch os {
	case "ubuntu":
		return "sudo ubuntu-drivers install"
	case "debian":
		return "sudo apt install nvidia-driver"
	case "fedora":
		return "sudo dnf install akmod-nvidia"
	case "arch":
		return "sudo pacman -S nvidia"
	}
	return "install the driver from https://www.nvidia.com/drivers"
}

// cards checks what NVML reports, and which of the cards the command would see.
func cards(m Machine) []Finding {
	if err := m.Cards.Err; err != nil {
		return cardsFailed(m, err)
	}
	all := m.Cards.Value
	if len(all) == 0 {
		if m.Driver.Err == nil && len(m.Driver.Value.PCI) > 0 {
			return finding(Wrong, "NVML lists no card", "the card is on the bus, but the driver has not taken it",
				"sudo dmesg | grep -i -e NVRM -e Xid")
		}
		return finding(Absent, "NVML lists no card", "")
	}
	answering, _ := gpu.Answering(all)
	var out []Finding
	if len(answering) > 0 {
		out = finding(Right, listed(answering), "")
	}
	for _, d := range all {
		if d.Fault == "" {
			continue
		}
		f := Finding{State: Wrong, Found: fmt.Sprintf("card %d does not answer the driver: %s", d.Index, d.Fault),
			Why: "programs cannot use it, and may not start on the other cards", Mend: []string{d.Mend()}}
		if m.Container.Value.Kind != "" && unknownError(d.Fault) {
			f.Why, f.Mend = revoked.Why, revoked.Mend
		}
		out = append(out, f)
	}
	if all = answering; len(all) == 0 {
		return out
	}
	seen, unsure, err := gpu.Visible(m.Env, all)
	if err != nil {
		hides := gpu.Narrowed(m.Env, all)
		return append(out, Finding{State: Wrong, Found: hides + "=" + m.variable(hides),
			Why: err.Error(), Mend: []string{"unset " + hides}})
	}
	if unsure {
		out = append(out, Finding{State: Remark, Found: "the cards differ",
			Why:  "CUDA numbers the fastest card first, nvidia-smi by the bus: a number can mean two cards",
			Mend: []string{"export CUDA_DEVICE_ORDER=PCI_BUS_ID"}})
	}
	for _, d := range seen {
		if d.Total > 0 && 2*d.Used > d.Total {
			out = append(out, Finding{State: Remark,
				Found: fmt.Sprintf("card %d has %v free of %v", d.Index, d.Free(), d.Total),
				Why:   "others use more than half of its memory" + holders(d), Mend: []string{"launch gpus"}})
		}
	}
	return out
}

// cardsFailed explains an error of NVML.
func cardsFailed(m Machine, err error) []Finding {
	d, box, text := m.Driver.Value, m.Container.Value.Kind, err.Error()
	switch {
	case errors.Is(err, drivers.ErrNoDriver) && d.Module == "" && !m.inWSL():
		return finding(Absent, "no NVML", "")
	case errors.Is(err, drivers.ErrNoDriver) && box != "":
		return finding(Wrong, "no NVML: libnvidia-ml.so.1 is not in the container",
			"launch cannot measure the card; the container lacks the driver's libraries",
			append(startWithCard(box), "export NVIDIA_DRIVER_CAPABILITIES=compute,utility")...)
	case errors.Is(err, drivers.ErrNoDriver):
		return finding(Wrong, "no NVML: libnvidia-ml.so.1 was not found",
			"launch cannot measure the card; the driver's libraries are incomplete", "ldconfig -p | grep libnvidia-ml",
			install(d.OS))
	case strings.Contains(text, "version mismatch"):
		return finding(Wrong, text, "the driver was updated, and the kernel still runs the old module", "sudo reboot")
	case unknownError(text) && box != "":
		return finding(Wrong, text, revoked.Why, revoked.Mend...)
	case errors.Is(err, context.DeadlineExceeded):
		return finding(Wrong, text, "the driver hangs, or takes long to wake the card", "sudo nvidia-smi -pm 1",
			"sudo dmesg | grep -i -e NVRM -e Xid")
	}
	return finding(Wrong, text, "launch cannot measure the card", "nvidia-smi", "sudo dmesg | grep -i -e NVRM -e Xid")
}

func unknownError(text string) bool { return strings.Contains(strings.ToLower(text), "unknown error") }

// revoked is what has happened to a container whose cards answer with an unknown error.
var revoked = Finding{Why: "a container loses its cards when systemd reloads its units", Mend: []string{
	"start the container again",
	"docker run --gpus all --device /dev/nvidiactl --device /dev/nvidia-uvm --device /dev/nvidia0 …"}}

// listed names the cards, equal ones together.
func listed(all []gpu.Device) string {
	type kind struct {
		name  string
		total unit.Bytes
		mig   bool
	}
	var order []kind
	count := map[kind]int{}
	for _, d := range all {
		k := kind{d.Name, d.Total.Round(unit.GiB), d.Parent != ""}
		if count[k]++; count[k] == 1 {
			order = append(order, k)
		}
	}
	var out []string
	for _, k := range order {
		s := fmt.Sprintf("%s, %v", k.name, k.total)
		if k.total == 0 {
			s = k.name + ", memory not known"
		}
		if count[k] > 1 {
			s = fmt.Sprintf("%d × %s", count[k], s)
		}
		out = append(out, s)
	}
	s := strings.Join(out, "; ")
	if all[0].Driver != "" {
		s += "; driver " + all[0].Driver
	}
	return s
}

// holders names the largest processes on a card, as far as the driver lists them.
func holders(d gpu.Device) string {
	ps := slices.Clone(d.Processes)
	slices.SortStableFunc(ps, func(a, b gpu.Process) int { return int(b.Used - a.Used) })
	var out []string
	for _, p := range ps[:min(2, len(ps))] {
		s := fmt.Sprintf("process %d", p.PID)
		if p.Name != "" {
			s += " " + p.Name
		}
		if p.User != "" {
			s += " of " + p.User
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}
