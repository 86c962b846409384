package check

import (
	"fmt"
	"strings"
)

// inWSL reports whether the kernel is Microsoft's.
func (m Machine) inWSL() bool { return strings.Contains(strings.ToLower(m.Kernel), "microsoft") }

// wsl checks the Windows Subsystem for Linux (docs.nvidia.com/cuda/wsl-user-guide).
func wsl(m Machine) (out []Finding) {
	if !m.inWSL() {
		return finding(Absent, "not in WSL", "")
	}
	d := m.Driver.Value
	// WSL 1 has a kernel of its own, "4.4.0-19041-Microsoft"; that of WSL 2 ends with "-microsoft-standard-WSL2"
	if !strings.Contains(m.Kernel, "WSL2") && strings.HasSuffix(m.Kernel, "-Microsoft") {
		return finding(Wrong, "WSL 1, kernel "+m.Kernel, "it has no CUDA", "wsl.exe --set-version $WSL_DISTRO_NAME 2")
	}
	add := func(state MachineState, found, why string, mend ...string) {
		out = append(out, finding(state, found, why, mend...)...)
	}
	if m.Driver.Err == nil && d.DXG == NoDevice {
		add(Wrong, "WSL 2 without /dev/dxg", "the kernel or the driver of Windows is too old for CUDA", "wsl.exe --update",
			"wsl.exe --shutdown")
	}
	if d.Library != "" {
		add(Wrong, "WSL 2 with a driver of its own: "+d.Library,
			"it hides the driver of Windows (/usr/lib/wsl/lib), and CUDA finds no card",
			"sudo apt purge 'libnvidia-*' 'nvidia-driver-*'")
	}
	if m.Mount.Err == nil && (m.Mount.Value.Kind == "9p" || m.Mount.Value.Kind == "drvfs") {
		add(Remark, m.Mount.Value.At+" is a drive of Windows",
			"reading many small files from it is far slower than from Linux's own file system", "cp -r . ~/project")
	}
	if len(out) == 0 {
		return finding(Right, "WSL 2, kernel "+m.Kernel, "")
	}
	return out
}

// container checks what a container's settings take away.
func container(m Machine) (out []Finding) {
	if m.Container.Err != nil {
		return unseen(m.Container.Err)
	}
	kind := m.Container.Value.Kind
	if kind == "" {
		return finding(Absent, "no container", "")
	}
	carded := m.Driver.Err == nil && m.Driver.Value.Module != ""
	if v := m.variable("NVIDIA_VISIBLE_DEVICES"); carded && (v == "void" || v == "none") {
		out = append(out, finding(Wrong, kind+", NVIDIA_VISIBLE_DEVICES="+v, "the container gets no card",
			startWithCard(kind)...)...)
	}
	if v := m.variable("NVIDIA_DRIVER_CAPABILITIES"); carded && v != "" && v != "all" &&
		!strings.Contains(","+v+",", ",compute,") {
		out = append(out, finding(Wrong, kind+", NVIDIA_DRIVER_CAPABILITIES="+v,
			"without \"compute\" the container has no CUDA",
			kind+" run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …")...)
	}
	if len(out) == 0 {
		return finding(Right, kind, "")
	}
	return out
}

// soonOver is the time before the end of a job in which a training hardly comes to anything.
const soonOver = 15 * 60

// slurm checks what Slurm has given to this job.
func slurm(m Machine) (out []Finding) {
	s := m.Slurm
	carded := m.Driver.Err == nil && len(m.Driver.Value.PCI) > 0
	switch {
	case s.Job == "" && !s.Installed:
		return finding(Absent, "no Slurm", "")
	case s.Job == "":
		return finding(Remark, "Slurm, and no job", "this may be a login node: its limits are not those of a job",
			"srun --gres gpu:1 --pty launch doctor")
	case s.GPUs == "" && carded:
		out = append(out, finding(Wrong, "job "+s.Job+" without a GPU", "the job did not ask for one",
			"#SBATCH --gres=gpu:1")...)
	}
	if m.CPUs.Err == nil && s.CPUs == 0 && m.CPUs.Value.Allowed == 1 {
		out = append(out, finding(Remark, "job "+s.Job+" has 1 core", "loader workers and the training share it",
			"#SBATCH --cpus-per-task=8")...)
	}
	if left := s.Ends - s.Now; s.Ends > 0 && left < soonOver {
		out = append(out, finding(Remark, fmt.Sprintf("job %s ends in %d minutes", s.Job, max(0, left/60)),
			"the training is stopped then", "#SBATCH --time=24:00:00",
			"#SBATCH --signal=B:USR2@300   (with: exec launch --save-on=USR2=300s -- …)")...)
	}
	if len(out) == 0 {
		found := "job " + s.Job
		if s.GPUs != "" {
			found += ", GPUs " + s.GPUs
		}
		return finding(Right, found, "")
	}
	return out
}
