// Command liveruns records runs as a running launch does, and publishes a status of each every second, until it is
// ended or its standard input is closed. No program runs. It is for the picture of `launch top` and for measuring what
// that costs:
//
//	go run ./tools/liveruns -state DIR -runs 200
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// shown are the runs of the picture. With more, they come again as trials.
var shown = []record.Status{
	status("span_x4_df2k", 2, 0, 210_000, 500_000, 0.13, 61.4, 17.2, 16.1, "training"),
	status("realplksr_x2", 1, 1, 84_500, 300_000, 0.21, 38.1, 20.4, 19.8, "validation"),
	status("moco_v2_r50", 1, 2, 0, 0, 0, 0, 21.9, 0, ""),
	status("dualattn_cub", 1, 3, 3_120, 4_000, 0.9, 17.8, 9.6, 10.3, "training"),
	status("vqgan_faces", 1, 3, 41_000, 0, 0, 11.2, 0, 8.9, "training"),
}

// gib is an amount in GiB.
func gib(v float64) unit.Bytes { return unit.Bytes(v * float64(unit.GiB)) }

// status is a status whose Trial is, until it is published, the name of the run.
func status(name string, attempt, card int, at, total int64, step, rate, estimate, peak float64,
	phase string) record.Status {
	s := record.Status{Trial: name, Attempt: attempt, Phase: phase, Card: fmt.Sprint("GPU-", card), Room: gib(23.6),
		Predicted: map[string]unit.Bytes{}}
	if estimate > 0 {
		s.Predicted["training"] = gib(estimate)
		s.Predicted["validation"] = gib(estimate + 1.7)
	}
	if at > 0 {
		s.Progress = &record.Progress{Iteration: at, Total: total, Rate: rate,
			Step: time.Duration(step * float64(time.Second))}
	}
	if peak > 0 {
		s.Memory = &record.StatusMemory{Now: gib(peak), Peak: gib(peak), Is: mem.Used}
	}
	return s
}

func main() {
	state := flag.String("state", "", "the state folder to write to")
	runs := flag.Int("runs", len(shown), "how many runs")
	cards := flag.Int("cards", 4, "on how many cards: GPU-0, GPU-1, …")
	flag.Parse()
	if *state == "" {
		log.Fatal("liveruns: -state is missing")
	}
	store := record.In(*state)
	var files []*record.StatusFile
	var all []record.Status
	began := time.Now()
	for i := range *runs {
		s := shown[i%len(shown)]
		name := s.Trial
		if s.Trial = ""; *runs > len(shown) {
			name, s.Card = fmt.Sprintf("%s-%03d", name, i), fmt.Sprint("GPU-", i%*cards)
		} else if s.Progress == nil {
			s.Trial, s.Phase = string(run.Rehearsal), "training"
		}
		s.Began, s.PID = began, os.Getpid()
		rec, err := store.Create(began.Add(time.Duration(i) * time.Millisecond))
		if err == nil {
			err = rec.Write(record.Event{Kind: record.Started, Run: &run.Run{Job: &job.Job{Plugin: "sisr", Name: name,
				Command: job.Command{Args: []string{"python3", "train.py", "-opt", "options/" + name + ".yml"}}}}})
		}
		if err != nil {
			log.Fatal("liveruns: ", err)
		}
		f, err := record.CreateStatus(rec.Dir)
		if err != nil {
			log.Fatal("liveruns: ", err)
		}
		files, all = append(files, f), append(all, s)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	tick := time.NewTicker(record.StatusEvery)
	for n := 0; ; n++ {
		for i, f := range files {
			if err := f.Write(after(all[i], n, i)); err != nil {
				log.Fatal("liveruns: ", err)
			}
		}
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// after is the status of the ith run after n seconds.
func after(s record.Status, n, i int) record.Status {
	s.Time = time.Now()
	if s.Progress != nil {
		p := *s.Progress
		if p.Step > 0 {
			p.Iteration += int64(time.Duration(n) * time.Second / p.Step)
		}
		p.At = s.Time
		p.Rate *= 1 + 0.02*math.Sin(float64(n+i))
		s.Progress = &p
	}
	if s.Memory != nil {
		m := *s.Memory
		m.Now -= unit.Bytes(float64(m.Now) * 0.1 * (1 + math.Sin(float64(n*(i+1)))) / 2)
		s.Memory = &m
	}
	return s
}
