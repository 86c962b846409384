package ui

import (
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// Ranks are processes. The cards that DataParallel drives from one process are none.
func TestTitleCountsWhatShares(t *testing.T) {
	for _, tt := range []struct {
		batch job.Batch
		want  string
	}{
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}, "r · global batch 16 = 8 × 2 (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 4}, "r · global batch 64 = 8 × 2 × 4 ranks (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 4, Replicas: true}, "r · global batch 64 = 8 × 2 × 4 cards (plugin p)"},
		{job.Batch{Micro: 8, Accumulation: 2, Ranks: 1, Replicas: true}, "r · global batch 16 = 8 × 2 (plugin p)"},
	} {
		if got := Title(&job.Job{Dialect: "r", Plugin: "p", Batch: tt.batch}); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
