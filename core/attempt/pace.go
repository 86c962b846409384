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

// paces are those of the streams. The same steps may be on several: a log file is read later than the terminal, in
// pieces.
type paces struct {
	mu      sync.Mutex
	streams map[string]*pace
	order   []string // by their first report
}

func (p *paces) see(stream string, iteration int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams[stream] == nil {
		if p.streams == nil {
			p.streams = map[string]*pace{}
		}
		p.streams[stream] = &pace{}
		p.order = append(p.order, stream)
	}
	p.streams[stream].report(iteration, now)
}

// rate is that of the stream that reported first. One that counts the steps of an epoch is asked last: what it counts
// may be another thing.
func (p *paces) rate(b job.Batch, micro bool) (rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.order {
		s := p.streams[name]
		if r := s.rate(b, micro); r > 0 && s.done == 0 {
			return r
		} else if rate == 0 {
			rate = r
		}
	}
	return rate
}

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
