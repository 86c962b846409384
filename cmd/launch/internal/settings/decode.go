package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/viper"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/unit"
)

// decoder reads the values of settings, and collects the errors.
type decoder struct {
	Values
	v    *viper.Viper
	errs []error
}

func (d *decoder) wrong(format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf(format, args...))
}

func (d *decoder) wrongValue(key, kind string) {
	d.errs = append(d.errs, WrongValue(d.Names.Name(key), kind, d.v.GetString(key)))
}

func (d *decoder) bytes(key string) unit.Bytes { return d.bytesOf(key, d.v.GetString(key)) }

// bytesOf reads an amount of memory; key names it in errors.
func (d *decoder) bytesOf(key, text string) unit.Bytes {
	if text == "" {
		return 0
	}
	b, err := unit.Parse(text)
	d.Room.Decimal = d.Room.Decimal || key != "reserve" && unit.Decimal(text)
	switch {
	case err != nil && d.Names.from[key] == "" && strings.HasPrefix(text, "--"):
		// the next flag, or the -- before the command
		d.wrong("--%s needs an amount of memory, such as --%s 8GiB", key, key)
	case err != nil:
		d.wrong("%s: %w", d.Names.Name(key), err)
	case key != "reserve" && b < 64*unit.MiB: // CUDA's runtime alone takes more
		without := map[string]string{"vram": "to plan for this machine's card", "memory": "to set no limit"}[key]
		d.wrong("%s: %v is too small for a training; give an amount with its unit, such as 12GiB, or leave it "+
			"out %s", d.Names.Value(key, text), b, without)
	}
	return b
}

// cards reads --vram: the size or the name of a card, or several of these.
func (d *decoder) cards() {
	text := d.v.GetString("vram")
	var all []Card
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if card, known := gpu.Named(part); known {
			all = append(all, Card{card, card.Bytes()})
		} else if err := unknownCard(part); err != nil {
			d.wrong("%s: %w", d.Names.Name("vram"), err)
		} else if b := d.bytesOf("vram", part); b > 0 {
			all = append(all, Card{Bytes: b})
		}
	}
	switch {
	case len(all) == 1:
		d.Room.VRAM, d.Room.Card = all[0].Bytes, all[0].Card
	case len(all) > 1:
		d.Cards = all
	}
}

// unknownCard reports a text that is meant as the name of a card.
func unknownCard(text string) error {
	if sizes := gpu.Sizes(text); len(sizes) > 0 {
		return fmt.Errorf("%q is more than one card: name one of %s", text, strings.Join(sizes, ", "))
	}
	if text == "" || strings.ContainsAny(text[:1], "0123456789.-") {
		return nil // an amount
	}
	meant := ""
	if near := gpu.Near(text); len(near) > 0 {
		meant = "did you mean " + strings.Join(near, ", ") + "? "
	}
	return fmt.Errorf("%s%q is not an amount of memory, such as 12GiB, and launch knows no card of that name", meant, text)
}

// boolean reads a boolean. viper's own GetBool takes a text that it cannot read as false.
func (d *decoder) boolean(key string) bool {
	on, err := truth(d.v.GetString(key))
	if err != nil {
		d.wrongValue(key, "bool")
	}
	return on
}

func (d *decoder) duration(key string) time.Duration {
	t, err := time.ParseDuration(d.v.GetString(key))
	if err != nil || t <= 0 {
		d.wrongValue(key, "duration")
	}
	return t
}

// notices reads --save-on: signals with a time for each.
func (d *decoder) notices(key string) (out []attempt.Notice) {
	for part := range strings.SplitSeq(d.v.GetString(key), ",") {
		name, within, given := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" && !given {
			continue
		}
		sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
		n := attempt.Notice{Name: unix.SignalName(sig), Signal: sig, Within: attempt.NoticeTime}
		var err error
		if given {
			n.Within, err = time.ParseDuration(within)
		}
		switch {
		case !slices.Contains([]syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGTERM, unix.SIGHUP, unix.SIGINT}, sig):
			d.wrong("%s: %q is not one of USR1, USR2, TERM, HUP and INT", d.Names.Name(key), name)
		case err != nil || n.Within <= 0:
			d.wrong("%s: %q is not a time, such as 100s", d.Names.Name(key), within)
		default:
			out = append(out, n)
		}
	}
	return out
}

// pressure reads --on-pressure.
func (d *decoder) pressure() {
	switch v := d.v.GetString("on-pressure"); {
	case v == "off":
	case v != attempt.Save && v != attempt.StepDown:
		d.wrong("%s: %q is not one of off, %s and %s", d.Names.Name("on-pressure"), v, attempt.Save, attempt.StepDown)
	case v == attempt.StepDown && d.v.GetString("nodes-at") != "":
		d.wrong("%s: %s is for one machine: no other would go with it", d.Names.Name("on-pressure"), v)
	default:
		d.Program.OnPressure = v
	}
}

// places reads where notices are sent. An address and a command are secrets, so errors do not have them.
func (d *decoder) places() {
	list := d.v.GetString("notify")
	if d.Notices.Host = d.boolean("notify-host"); strings.TrimSpace(list) == NoNotice {
		return
	}
	var err error
	if d.Notices.To, err = report.NoticePlaces(list); err != nil {
		d.wrong("%s: %w", d.Names.Name("notify"), err)
	}
	if text := d.v.GetString("notify-command"); text != "" {
		d.Notices.To = append(d.Notices.To, report.NoticeCommand(text))
	}
}

// shows reads --status: what the terminal shows of the progress.
func (d *decoder) shows() {
	for part := range strings.SplitSeq(strings.ToLower(d.v.GetString("status")), ",") {
		switch part = strings.TrimSpace(part); part {
		case "", "none":
		case "line":
			d.Output.Shows.Line = true
		case "title":
			d.Output.Shows.Title = true
		case "taskbar":
			d.Output.Shows.Taskbar = true
		default:
			d.wrong("%s: %q is not one of line, title, taskbar and none", d.Names.Name("status"), part)
		}
	}
}

// NoNotice as --notify turns all notices off.
const NoNotice = "none"

// fill reads --fill: a boolean, "most" or "fast".
func (d *decoder) fill() (on, fast bool) {
	switch text := strings.ToLower(d.v.GetString("fill")); text {
	case "":
		return false, false
	case "fast":
		return true, true
	case "most":
		return true, false
	default:
		on, err := truth(text)
		switch {
		case err != nil && d.Names.from["fill"] == "":
			d.wrong("--fill=%s: write --fill or --fill=fast", d.v.GetString("fill"))
		case err != nil:
			d.wrong("%s: %q is neither fast nor true or false", d.Names.from["fill"], d.v.GetString("fill"))
		}
		return on, false
	}
}

// trace reads --trace and --trace-time.
func (d *decoder) trace() {
	d.Reading.TraceTime = d.duration("trace-time")
	switch text := strings.ToLower(d.v.GetString("trace")); text {
	case TraceAuto, TraceNever, TraceAlways, TraceUnpriced:
		d.Reading.Trace = text
	default:
		on, err := truth(text)
		if d.Reading.Trace = TraceNever; on {
			d.Reading.Trace = TraceAlways
		}
		if err != nil {
			d.wrong("%s: %q is not one of auto, never and always", d.Names.Name("trace"), text)
		}
	}
}

// The values of --trace.
const (
	TraceAuto   = "auto"
	TraceNever  = "never"
	TraceAlways = "always"
	// TraceUnpriced is what launch sweep plan gives to the plans of its rows.
	TraceUnpriced = "unpriced"
)

// wait reads --wait: a boolean or a time.
func (d *decoder) wait() time.Duration {
	text := d.v.GetString("wait")
	if t, err := time.ParseDuration(text); err == nil && t > 0 {
		return t
	}
	switch on, err := truth(cmp.Or(text, "false")); {
	case err != nil:
		d.wrong("%s: %q is neither a time, such as 30m, nor true or false", d.Names.Name("wait"), text)
	case on:
		return Forever
	}
	return 0
}

// decode reads the settings from v. names is how errors name them.
func decode(v *viper.Viper, names Names) (Values, error) {
	d := &decoder{Values: Values{Names: names}, v: v}
	d.Room.Names, d.Nodes.Names, d.Result.Names = names, names, names
	var err error
	if d.Limits.Allow, err = ladder.ParseCost(v.GetString("allow")); err != nil {
		d.wrong("%s: %w", d.Names.Name("allow"), err)
	}
	d.Room.Memory, d.Room.Reserve = d.bytes("memory"), d.bytes("reserve")
	d.cards()
	d.Room.Device, d.Reading.Plugin = v.GetString("device"), v.GetString("plugin")
	d.Limits.AsAsked, d.Limits.Anyway = d.boolean("as-asked"), d.boolean("anyway")
	d.Limits.Rehearse = d.boolean("rehearse")
	if d.Room.GPUs, err = strconv.Atoi(v.GetString("gpus")); err != nil || d.Room.GPUs < 0 {
		d.wrongValue("gpus", "int")
	}
	d.Limits.Fill, d.Limits.Fast = d.fill()
	d.Room.Wait = d.wait()
	d.Continue = d.boolean("continue")
	d.Output.Verbose = d.boolean("verbose")
	d.Program.TTY, d.Output.Quiet, d.Result.File = d.boolean("tty"), d.boolean("quiet"), v.GetString("json-file")
	d.Reading.Receipts, d.Program.Inside, d.Prune = d.boolean("receipts"), d.boolean("inside"), d.boolean("prune")
	if v.GetString("last-words") != "0" {
		d.Program.LastWords = d.duration("last-words")
	}
	d.pressure()
	d.Program.Sample, d.Program.Yield = d.duration("sample"), d.boolean("yield")
	d.Program.Leave = d.notices("save-on")
	d.places()
	d.shows()
	if d.Output.Bars = v.GetString("bars"); !slices.Contains([]string{"auto", "always", "never"}, d.Output.Bars) {
		d.wrong("%s: %q is not one of auto, always and never", d.Names.Name("bars"), d.Output.Bars)
	}
	d.Nodes.At, d.Nodes.This = v.GetString("nodes-at"), v.GetString("this-node")
	if v.GetString("formula-time") != "0" {
		d.Reading.FormulaTime = d.duration("formula-time")
	}
	d.trace()
	if v.IsSet("grace") {
		d.Program.Grace = d.duration("grace")
	}
	d.contradictions()
	d.State = cmp.Or(v.GetString("state-dir"), record.StateDir())
	return d.Values, errors.Join(d.errs...)
}

// contradictions reports settings that exclude each other. A memory limit implies --device cpu.
func (d *decoder) contradictions() {
	switch {
	case (d.Room.VRAM > 0 || len(d.Cards) > 0) && d.Room.Memory > 0:
		d.wrong("%s plans for a card, %s for host memory: remove one of them", d.Names.Name("vram"), d.Names.Name("memory"))
	case d.Room.Memory > 0 && d.Room.Device == "auto":
		d.Room.Device = "cpu"
	case d.Room.Memory > 0 && d.Room.Device != "cpu":
		d.wrong("%s limits host memory: it goes with --device cpu, not with %s. For a card use --vram",
			d.Names.Name("memory"), d.Names.Value("device", d.Room.Device))
	case d.Room.VRAM > 0 && d.Room.Device == "cpu":
		d.wrong("%s is the size of a card: it does not go with %s. To limit host memory use --memory", d.Names.Name("vram"),
			d.Names.Value("device", "cpu"))
	case d.Room.VRAM > 0 && d.Room.Device != "auto": // launch would ignore the device
		d.wrong("%s plans for any card of that size, but %s names one in this machine: remove one of them, or set "+
			"--device auto", d.Names.Name("vram"), d.Names.Value("device", d.Room.Device))
	}
	if d.Nodes.At != "" && (d.Limits.Fast || d.Limits.Rehearse) {
		d.wrong("%s does not go with --fill=fast or --rehearse: short runs are made on one machine", d.Names.Name("nodes-at"))
	}
	if d.Limits.AsAsked && d.Limits.Fill {
		d.wrong("%s and %s contradict each other", d.Names.Name("as-asked"), d.Names.Name("fill"))
	}
}

// truth reads a boolean as strconv does, or as YAML 1.1 writes it (yaml.org/type/bool.html), in any case. The YAML
// parser follows YAML 1.2, where yes and on are texts.
func truth(text string) (bool, error) {
	switch text = strings.ToLower(text); text {
	case "yes", "y", "on":
		return true, nil
	case "no", "n", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

// WrongValue returns the error of a value that does not match its flag's type.
func WrongValue(name, kind, value string) error {
	what := map[string]string{"bool": "true or false", "int": "a whole number of at least 0", "duration": "a time, such as 30s"}[kind]
	what = cmp.Or(what, "a "+kind)
	return fmt.Errorf("%s: %q is not %s", name, value, what)
}
