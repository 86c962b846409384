package declared

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

func (f written) readSigns(d *declaration) error {
	for _, s := range signKeys {
		pattern, ok := f.root.Get(s.key).Str()
		if !ok {
			continue
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return f.wrong(s.key, "%v", err)
		}
		if s.group != "" && re.SubexpIndex(s.group) < 0 {
			return f.wrong(s.key, "it has no group (?P<%s>…)", s.group)
		}
		d.signs.Lines = append(d.signs.Lines, job.Sign{Kind: s.kind, Pattern: pattern})
		d.signs.MustSucceed = d.signs.MustSucceed || s.kind == job.Succeeded
	}
	return nil
}

// readMetrics reads one metric, or a list of them.
func (f written) readMetrics(d *declaration) error {
	v := f.root.Get("metric")
	all := []config.Value{v}
	if v.Kind() == config.Seq {
		all = nil
		for i := range v.Len() {
			all = append(all, v.Index(i))
		}
	} else if !v.Exists() {
		return nil
	}
	for _, m := range all {
		for _, key := range m.Keys() {
			if !slices.Contains([]string{"name", "pattern", "direction"}, key) {
				return f.wrong("metric", "there is no such key as %q; there are name, pattern and direction", key)
			}
		}
		name, pattern := m.Get("name").Text(), m.Get("pattern").Text()
		re, err := regexp.Compile(pattern)
		if err == nil && (name == "" || re.SubexpIndex("value") < 0) {
			err = errors.New("it has a name, a direction, and a pattern with the group (?P<value>…)")
		}
		direction, bad := metric.ParseDirection(m.Get("direction").Text())
		if err := cmp.Or(err, bad); err != nil {
			return f.wrong("metric", "%v", err)
		}
		d.signs.Lines = append(d.signs.Lines, job.Sign{Kind: job.Metric, Name: name, Direction: direction, Pattern: pattern})
	}
	return nil
}

func (f written) readConfirm(d *declaration) error {
	for _, knob := range f.root.Get("confirm").Keys() {
		pattern := f.root.Get("confirm").Get(knob).Text()
		re, err := regexp.Compile(pattern)
		if err == nil && re.SubexpIndex("value") < 0 {
			err = fmt.Errorf("%s has no group (?P<value>…)", knob)
		}
		if err != nil {
			return f.wrong("confirm", "%v", err)
		}
		if knob == "global-batch" {
			knob = job.GlobalBatch
		}
		d.signs.Lines = append(d.signs.Lines, job.Sign{Kind: job.Setting, Knob: knob, Pattern: pattern})
	}
	return nil
}

// readSave reads how the program is asked to save: {signal: USR1, stops: false}.
func (f written) readSave(d *declaration) error {
	v := f.root.Get("save")
	if !v.Exists() {
		return nil
	}
	for _, k := range v.Keys() {
		if k != "signal" && k != "stops" {
			return f.wrong("save", "there is no key %s; there are signal and stops", k)
		}
	}
	name := strings.ToUpper(v.Get("signal").Text())
	d.save = job.Save{Signal: "SIG" + strings.TrimPrefix(name, "SIG")}
	d.save.Stops, _ = v.Get("stops").Bool()
	if !slices.Contains([]string{"SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"}, d.save.Signal) {
		return f.wrong("save", "%q is none of the signals INT, TERM, HUP, USR1 and USR2", v.Get("signal").Text())
	}
	return nil
}

func (f written) readResume(d *declaration) error {
	if v := f.root.Get("in-the-way"); v.Kind() == config.Seq {
		for i := range v.Len() {
			d.inTheWay = append(d.inTheWay, v.Index(i).Text())
		}
	} else if v.Exists() {
		d.inTheWay = []string{v.Text()}
	}
	for _, flag := range f.root.Get("resume").Keys() {
		d.resume = flag
		d.signs.States = append(d.signs.States, f.root.Get("resume").Get(flag).Text())
	}
	if v := f.root.Get("resume-value"); v.Exists() {
		if d.resumeValue = v.Text(); d.resume == "" || d.resumeValue == "" {
			return f.wrong("resume-value", "it is the value of the option that resume names")
		}
	}
	return nil
}
