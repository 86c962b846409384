package attempt

import (
	"sync"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// pace measures how fast the program trains, from its reports of progress.
type pace struct {
	mu     sync.Mutex
	at     []report // the first of an epoch, and the last two
	epochs float64  // seconds in finished epochs
	done   int64    // iterations in finished epochs
}

type report struct {
	iteration int64
	when      time.Time
}

func (p *pace) see(iteration int64) { p.report(iteration, time.Now()) }

func (p *pace) report(iteration int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if iteration < 1 { // the first iteration is slow: it loads kernels, and cuDNN tries its algorithms
		return
	}
	switch n := len(p.at); {
	case n > 0 && iteration < p.at[n-1].iteration: // the count starts again in each epoch
		iterations, seconds := p.span()
		p.done, p.epochs = p.done+iterations, p.epochs+seconds
		p.at = append(p.at[:0], report{iteration, now})
	case n > 0 && iteration == p.at[n-1].iteration:
	case n == 3:
		p.at = append(p.at[:1], p.at[2], report{iteration, now})
	default:
		p.at = append(p.at, report{iteration, now})
	}
}

// span returns the iterations from the first report to the last but one, and the seconds between them. A progress bar
// is read when the next one overwrites it; the last bar would be read at another moment, so it does not count.
func (p *pace) span() (iterations int64, seconds float64) {
	if len(p.at) < 3 {
		return 0, 0
	}
	return p.at[1].iteration - p.at[0].iteration, p.at[1].when.Sub(p.at[0].when).Seconds()
}

// rate returns samples per second; 0 if there were too few reports.
func (p *pace) rate(b job.Batch, micro bool) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	iterations, seconds := p.span()
	iterations, seconds = iterations+p.done, seconds+p.epochs
	if iterations < 1 || seconds <= 0 || b.Global() == 0 {
		return 0
	}
	per := b.Global()
	if micro {
		per = b.Micro * max(1, b.Ranks)
	}
	return float64(iterations) * float64(per) / seconds
}
