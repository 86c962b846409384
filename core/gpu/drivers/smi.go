package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// The driver's own nvidia-smi is asked where its library cannot be loaded. Its CSV has less: no MIG slices, amounts
// in whole
// MiB, and of a process in another container nothing.
const tool = "nvidia-smi"

// fields are those that every nvidia-smi knows; optional ones came later: mig.mode.current with driver 450, the
// others with 510.
var (
	fields   = []string{"index", "uuid", "name", "driver_version", "memory.total", "memory.used", "utilization.gpu"}
	optional = []string{"mig.mode.current", "memory.reserved", "compute_cap"}
)

// byTool asks nvidia-smi. why is why the library could not be asked; it is the error where nvidia-smi cannot be
// asked either.
func byTool(ctx context.Context, why error) ([]gpu.Device, error) {
	path, err := private.Find(tool)
	if err != nil {
		return nil, why
	}
	all, err := (&smi{path: path}).look(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("asking %s: no answer: %w", tool, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("%w; %s: %w", why, tool, err)
	}
	return all, nil
}

func watchByTool(ctx context.Context, every time.Duration, why error, see func(time.Time, []gpu.Device)) error {
	path, err := private.Find(tool)
	if err != nil {
		return why
	}
	s := &smi{path: path}
	for {
		all, err := s.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watching the GPU: %w; %s: %w", why, tool, err)
		}
		see(time.Now(), all)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// An smi asks an nvidia-smi again and again.
type smi struct {
	path    string
	unknown []string // optional fields that it does not know
}

func (s *smi) look(ctx context.Context) ([]gpu.Device, error) {
	var cards string
	var asked []string
	for range len(optional) + 1 { // it names one unknown field at a time
		asked = slices.Clone(fields)
		for _, f := range optional {
			if !slices.Contains(s.unknown, f) {
				asked = append(asked, f)
			}
		}
		var err error
		cards, err = s.query(ctx, "--query-gpu="+strings.Join(asked, ","))
		if err == nil {
			break
		}
		m := unknownField.FindStringSubmatch(err.Error())
		if m == nil || !slices.Contains(optional, m[1]) {
			return nil, err
		}
		s.unknown = append(s.unknown, m[1])
	}
	all, err := cardsOf(asked, cards)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	apps, err := s.query(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory")
	addProcesses(all, apps)
	for i := range all {
		all[i].Unlisted = err != nil
	}
	return all, nil
}

var unknownField = lazy.MustCompile(`Field "([a-z_.]+)" is not a valid field to query`)

// query returns what nvidia-smi prints. It prints its errors on standard output.
func (s *smi) query(ctx context.Context, what string) (string, error) {
	cmd := exec.CommandContext(ctx, s.path, what, "--format=csv,noheader,nounits")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as the library's process
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	text := out.String()
	switch {
	case err == nil, strings.HasPrefix(text, "No devices were found"): // and exit code 6
		return text, nil
	default:
		return "", fmt.Errorf("%w: %s", err, firstLine(strings.TrimSpace(text+"\n"+errs.String())))
	}
}

// cardsOf reads the table of the cards. A card that it cannot read is an error: launch must not count fewer than
// there are.
func cardsOf(asked []string, table string) (all []gpu.Device, err error) {
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "No devices were found") {
			continue
		}
		cells := strings.Split(line, ", ")
		if len(cells) != len(asked) {
			return nil, fmt.Errorf("a line that is no card: %s", line)
		}
		row := map[string]string{}
		for i, name := range asked {
			row[name] = cells[i]
		}
		card, err := cardOf(row)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		all = append(all, card)
	}
	return all, nil
}

func cardOf(row map[string]string) (gpu.Device, error) {
	index, err := strconv.Atoi(row["index"])
	total, isTotal := mib(row["memory.total"])
	used, isUsed := mib(row["memory.used"])
	shares := absent(row["memory.total"]) && absent(row["memory.used"]) && onSystem(known(row["compute_cap"]))
	switch {
	case err != nil || !strings.HasPrefix(row["uuid"], "GPU-"):
		return gpu.Device{}, errors.New("a line that is no card")
	case row["mig.mode.current"] == "Enabled":
		return gpu.Device{}, fmt.Errorf("card %d is cut into MIG slices, and it does not list their memory", index)
	case (!isTotal || !isUsed) && !shares: // a card that was lost
		return gpu.Device{}, fmt.Errorf("the memory of card %d is unknown", index)
	}
	c := gpu.Device{Kind: gpu.CUDA, Index: index, UUID: row["uuid"], Name: row["name"],
		Driver:     known(row["driver_version"]),
		Capability: known(row["compute_cap"]), Total: total, Used: used, Asked: tool,
		Shared: shares}
	// where it is not known, it counts as used, as in NVML's version 1
	if reserved, is := mib(row["memory.reserved"]); is {
		c.Reserved, c.Total = &reserved, total-reserved
	}
	if busy, err := strconv.Atoi(row["utilization.gpu"]); err == nil && busy >= 0 && busy <= 100 {
		c.Busy = &busy
	}
	return c, nil
}

// absent reports whether the driver says that a card has no such thing. Of one that was lost it says so.
func absent(cell string) bool { return cell == "[N/A]" || cell == "[Not Supported]" || cell == "N/A" }

// known is a cell, or "" where it is one of "[N/A]", "[Not Supported]", "[Unknown Error]" and their like.
func known(cell string) string {
	if strings.HasPrefix(cell, "[") || cell == "N/A" {
		return ""
	}
	return cell
}

func mib(cell string) (unit.Bytes, bool) {
	n, err := strconv.ParseUint(cell, 10, 32)
	return unit.Bytes(n) * unit.MiB, err == nil
}

// addProcesses adds the processes that hold memory to their cards.
func addProcesses(all []gpu.Device, table string) {
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), ", ")
		if len(cells) != 3 {
			continue
		}
		i := slices.IndexFunc(all, func(d gpu.Device) bool { return d.UUID == cells[0] })
		pid, err := strconv.Atoi(cells[1])
		if i < 0 || err != nil {
			continue
		}
		used, is := mib(cells[2])
		if !is {
			used = -1
		}
		all[i].Processes = append(all[i].Processes, process(pid, used))
	}
}
