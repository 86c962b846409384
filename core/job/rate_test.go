package job_test

import (
	"regexp"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// The learning rate is found as the trainers print it, and nowhere else.
func TestRate(t *testing.T) {
	for line, want := range map[string]string{
		"[epoch:   0, iter:       1, lr:(1.000e-04)] [eta: 1:00]":       "1.000e-04", // traiNNer-redux
		"[epoch:  0, iter: 100, lr:(2.000e-04,)] l_pix: 2.1e-02":        "2.000e-04", // BasicSR
		"Epoch(train) [1][50/100]  lr: 1.0000e-02  eta: 0:10:00":        "1.0000e-02",
		"{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 4.9e-05}":     "4.9e-05",
		`{"lr": 0.001, "step": 10}`:                                     "0.001",
		"Train: 1 [ 50/1251 (  4%)]  Loss: 6.9  LR: 1.000e-05  Data: 0": "1.000e-05",
		"lr 3.0e-02 loss":            "",
		"color:(0.1, 0.2) loss: 1.0": "",
		"plr:(0.5)":                  "",
	} {
		got := ""
		for _, s := range job.OwnSigns() {
			if s.Kind != job.Rate || got != "" {
				continue
			}
			re := regexp.MustCompile(s.Pattern)
			if m := re.FindStringSubmatch(line); m != nil {
				got = m[re.SubexpIndex("value")]
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
