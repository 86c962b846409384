package sisr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
)

// checked goes through the checklist of a job whose program printed text into its log.
func checked(t *testing.T, j *job.Job, text string) map[string]job.CheckResult {
	t.Helper()
	d, err := oom.NewDetector(j.Signs)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(d.Stream(oom.Log), text)
	out := map[string]job.CheckResult{}
	for _, it := range run.Checklist(j, []run.Attempt{{Outcome: run.Outcome{Ending: run.Succeeded,
		Checked: d.State().Checks}}}) {
		out[it.Name] = it
	}
	return out
}

// measured is a recipe with a figure.
var measured = strings.Replace(recipeYAML, "  save_img: false\n", "  save_img: false\n  metrics_enabled: true\n"+
	"  metrics:\n    psnr: {type: calculate_psnr, crop_border: 4}\n", 1)

const infoLine = "2025-11-30 10:00:00,000 INFO: "

// validations are the lines of one after another (base_model.py, _log_validation_metric_values).
func validations(name string, values ...string) string {
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, infoLine+"[epoch:   0, iter:%8d, lr:(2.000e-04)] [peak VRAM: 1.71 GB] l_g_l1: 1.0000e-02 \n",
			5000*(i+1))
		fmt.Fprintf(&b, infoLine+"Validation Val\n\t # %s : %s\tBest: %s @ %d iter\n\n", name, v, v, 5000*(i+1))
	}
	return b.String()
}

// weights are lines of training with the dynamic loss weights, as train.py prints them every hundred iterations.
func weights(values ...string) string {
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, infoLine+"[epoch:   0, iter:%8d, lr:(2.000e-04)] l_g_l1: 1.0000e-02 l_g_total: 1.0000e-02 "+
			"dynamic_weight_l_g_l1: 1.0000e+00 dynamic_weight_l_g_mssim: %s grad_norm_g: 2.0000e-01 \n", 100*(i+1), v)
	}
	return b.String()
}

// Each check has a log that meets it, near misses, and one that shows nothing.
func TestChecks(t *testing.T) {
	recipe := strings.Replace(measured, "\ntrain:\n", "\ntrain:\n  dynamic_loss_scheduling: {enabled: true, "+
		"baseline_iterations: 200}\n", 1)
	j, err := recognize(t, folder(t, map[string]string{"x.yml": recipe}, nil), "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	const plausible, moves, adapt = "psnr is plausible", "psnr moves from validation to validation",
		"the dynamic loss weights change"
	for _, tt := range []struct {
		name, log, check string
		want             job.CheckState
		seen             string
	}{
		{"usual figures", validations("psnr", "27.1", "28.3"), plausible, job.Met, "28.3 at step 10000"},
		{"bad at first", validations("psnr", "4.1", "28.3"), plausible, job.Met, "28.3"},
		{"worse than grey", validations("psnr", "27.1", "5.9"), plausible, job.NotMet,
			"5.9 at step 10000, which is not from 6 to 70"},
		{"the same images", validations("psnr", "inf"), plausible, job.NotMet,
			"inf at step 5000, which is no finite number"},
		{"no validation", weights("1.0000e+00"), plausible, job.NotChecked, "printed no value"},
		{"they move", validations("psnr", "27.1000", "27.1001"), moves, job.Met,
			"27.1000 at step 5000, then 27.1001 at step 10000"},
		{"they stay", validations("psnr", "27.1000", "27.1000", "27.1000"), moves, job.NotMet,
			"stayed the same: 27.1000"},
		{"one validation", validations("psnr", "27.1"), moves, job.NotChecked, "1 of the 2 values"},
		{"another figure", validations("ssim", "27.1", "28"), moves, job.NotChecked, "printed no value"},
		{"a weight adapts", weights("1.0000e+00", "1.0000e+00", "1.0000e+00", "1.0012e+00"), adapt, job.Met,
			"l_g_mssim 1.0000e+00 at step 300, then 1.0012e+00 at step 400"},
		{"no weight adapts", weights("1.0000e+00", "1.0000e+00", "1.0000e+00", "1.0000e+00"), adapt, job.NotMet,
			"stayed the same: l_g_l1 1.0000e+00, l_g_mssim 1.0000e+00"},
		{"before the baseline", weights("1.0000e+00", "1.1000e+00"), adapt, job.NotChecked,
			"no value from step 201 on"},
		{"several ranks", validations("psnr", "27.1", "28.3"), adapt, job.NotChecked, "printed no value"},
	} {
		it, ok := checked(t, j, tt.log)[tt.check]
		if !ok || it.State != tt.want || !strings.Contains(it.Seen, tt.seen) {
			t.Errorf("%s: %+v", tt.name, it)
		}
	}
}

// A check is declared only where the recipe makes it possible.
func TestChecksOfTheRecipe(t *testing.T) {
	names := func(recipe string) (all string) {
		t.Helper()
		j, err := recognize(t, folder(t, map[string]string{"x.yml": recipe}, nil), "python", "train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range j.Signs.Checks {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			all += c.Name + "; "
		}
		return all
	}
	const usual = "psnr is plausible; psnr moves from validation to validation; "
	for name, tt := range map[string]struct{ old, now, want string }{
		"as it is":               {"", "", usual},
		"one validation":         {"val_freq: 100", "val_freq: 600", "psnr is plausible; "},
		"loss scheduling is off": {"\ntrain:\n", "\ntrain:\n  dynamic_loss_scheduling: {enabled: false}\n", usual},
		"no validation":          {"val_enabled: true", "val_enabled: false", ""},
		"it chooses its baseline": {"\ntrain:\n", "\ntrain:\n  dynamic_loss_scheduling: {enabled: true, auto_calibrate: " +
			"true}\n", usual + "the dynamic loss weights change; "},
		"the baseline is too long": {"\ntrain:\n", "\ntrain:\n  dynamic_loss_scheduling: {enabled: true, " +
			"baseline_iterations: 99999999}\n", usual + "the dynamic loss weights change; "},
	} {
		recipe := strings.Replace(measured, tt.old, tt.now, 1)
		if got := names(recipe); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// What the trainer stops at is a fault; other warnings are none.
func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		old, now string
		faults   int
	}{
		"as it is":            {"", "", 0},
		"a key of no version": {"\ntrain:\n", "\ntrain:\n  val_batch_size: 1\n", 1},
		"no workers":          {"    accum_iter: 1\n", "    accum_iter: 1\n    num_worker_per_gpu: 0\n", 1},
		"two crops":           {"lq_size: 64", "lq_size: 64\n    gt_size: 128", 1},
		"no crop":             {"lq_size: 64", "use_rot: true", 1},
		"a key that crashes":  {"path: {}", "path: {ignore_resume_networks: [a]}", 1},
		"automations":         {"\ntrain:\n", "\ntrain:\n  training_automations: {enabled: true}\n", 0},
	} {
		j, err := recognize(t, folder(t, map[string]string{"x.yml": strings.Replace(measured, tt.old, tt.now, 1)}, nil),
			"python",
			"train.py", "-opt", "x.yml")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(j.Faults) != tt.faults {
			t.Errorf("%s: faults %q of %q", name, j.Faults, j.Warnings)
		}
	}
}

// The recipe names its data: two folders of either set here, and nothing of a validation that is off.
func TestData(t *testing.T) {
	for old, want := range map[string]string{
		"":                  "training images gt, training images lq, validation images val",
		"val_enabled: true": "training images gt, training images lq",
		"path: {}":          "training images gt, training images lq, validation images val, weights to begin with w.pth",
	} {
		now := map[string]string{"val_enabled: true": "val_enabled: false", "path: {}": "path: {pretrain_network_g: " +
			"w.pth}"}[old]
		j, err := recognize(t, folder(t, map[string]string{"x.yml": strings.Replace(measured, old, now, 1)}, nil), "python",
			"train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range j.Data {
			got = append(got, d.What+" "+d.Path)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q", now, got)
		}
		if j.States != 10 {
			t.Errorf("%d states", j.States)
		}
	}
}
