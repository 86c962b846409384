package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/unit"
)

// The observations of real cards: no limit is broken, each is a limit, and each reason belongs to a row that needs one.
func TestRealCards(t *testing.T) {
	read := func() realCards {
		r, err := readReal(filepath.Join("testdata"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read()
	if broken := r.broken(); len(broken) > 0 {
		t.Error(strings.Join(broken, "\n"))
	}
	if len(r.bench.priced) != 346 || len(r.others) != 44 {
		t.Errorf("%d inference peaks and %d others", len(r.bench.priced), len(r.others))
	}
	for id := range otherReasons {
		if !slices.ContainsFunc(r.others, func(o observation) bool { return o.ID == id }) {
			t.Errorf("there is a reason for row %d, and no such row", id)
		}
	}
	for id, j := range latentJobs { // each is of a recipe that has a formula, and is of a row
		i := slices.IndexFunc(r.others, func(o observation) bool { return o.ID == id })
		if i < 0 || r.others[i].err != nil || r.others[i].estimate == 0 || r.others[i].Ask != nil {
			t.Errorf("row %d, %+v: it has no estimate", id, j)
		}
	}
	priced, others := r.bench.priced, r.others
	for name, tt := range map[string]struct {
		change func(p *benchPrice, o *observation)
		want   string
	}{
		"a tenth more in channels_last": {func(p *benchPrice, _ *observation) { p.allocated += p.allocated / 10 },
			"of the channels_last inference peaks agree"},
		"a tenth more in NCHW": {func(p *benchPrice, _ *observation) { p.allocated += p.allocated / 10 },
			"of the contiguous inference peaks agree"},
		"a network that has no reason": {func(p *benchPrice, _ *observation) {
			if p.arch == "drct" && p.scale == 2 {
				p.allocated *= 2
			}
		}, "the inference of drct, scale 2, contiguous, does not agree"},
		"no estimate": {func(p *benchPrice, _ *observation) { p.err = filepath.ErrBadPattern },
			"channels_last inference peaks have no estimate"},
		"a trusted row that disagrees": {func(_ *benchPrice, o *observation) { o.agrees = o.agrees && o.ID != 2 },
			"row 2: reserved of paragonsr2_stream does not agree"},
		"an untrusted row may": {func(_ *benchPrice, o *observation) { o.agrees = o.agrees && o.ID != 14 }, ""},
		"a reason that is needed no more": {func(_ *benchPrice, o *observation) { o.agrees = o.agrees || o.ID == 1 },
			"row 1 agrees now: it needs no reason"},
	} {
		r := realCards{bench: r.bench, others: slices.Clone(others)}
		r.bench.priced = slices.Clone(priced)
		for i := range r.bench.priced {
			tt.change(&r.bench.priced[i], &observation{})
		}
		for i := range r.others {
			tt.change(&benchPrice{}, &r.others[i])
		}
		got := strings.Join(r.broken(), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: broken is %q, want %q", name, got, tt.want)
		}
	}
	// a network whose peak is nearly all its output is priced with the output that the benchmark keeps
	for _, p := range priced {
		if p.arch == "compact" && p.scale == 4 && p.kept != 3*480*640*16*2 && p.kept != 3*480*640*16*4 {
			t.Errorf("compact keeps %v", p.kept)
		}
	}
}

// What a recipe of the kind of a row is asked is what `launch estimate` is asked: a setting that does not exist is an
// error.
func TestRealAsks(t *testing.T) {
	for _, tt := range []struct {
		plugin, arch string
		settings     map[string]string
		says         string
	}{
		{"sisr", "esrgan", map[string]string{"scale": "4", "image": "64", "training": "false", formatSetting: "false"}, ""},
		{"sisr", "nosuch", map[string]string{"image": "64", formatSetting: "true"}, "nosuch"},
		{"nobody", "esrgan", nil, `plugin "nobody" estimates no network`},
	} {
		_, err := ask(tt.plugin, tt.arch, tt.settings, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB})
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s %s: %v, want %q", tt.plugin, tt.arch, err, tt.says)
		}
	}
}
