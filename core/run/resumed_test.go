package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
)

// printed reads lines as an attempt prints them, one every pace; "-" before a line: on standard error, "fast " before
// it: a tenth of the pace after the one before.
func printed(t *testing.T, lines string, pace time.Duration) *Courses {
	t.Helper()
	d, err := oom.NewDetector(job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `\b(?:step|iter|it) \[?(?P<iteration>\d+)(?:/(?P<total>\d+))?`},
		{Kind: job.Progress, Pattern: `\| (?P<iteration>\d+)/(?P<total>\d+) \[`},
		{Kind: job.Progress, Pattern: `^epoch (?P<iteration>\d+) done`},
		{Kind: job.Progress, Pattern: `^ *\d+% (?P<iteration>\d+)/\d+ \[`},
		{Kind: job.SavedState, Pattern: `^saved (?P<path>\S+)`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var c Courses
	now := time.Unix(1000, 0)
	d.OnEvent = func(e oom.Event) { c.See(e, now) }
	for line := range strings.SplitSeq(lines, "; ") {
		if line == "" {
			continue
		}
		now = now.Add(pace)
		stream := oom.Stdout
		if rest, ok := strings.CutPrefix(line, "-"); ok {
			line, stream = rest, oom.Stderr
		}
		if rest, ok := strings.CutPrefix(line, "fast "); ok {
			line, now = rest, now.Add(-9*pace/10)
		}
		fmt.Fprintln(d.Stream(stream), line)
	}
	return &c
}

// steps prints the lines of steps from one to another.
func steps(format string, from, to int) string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, "; ")
}

// A restart is reported where the program's own count shows it, and nowhere else.
func TestFollowedBy(t *testing.T) {
	loss, bar := "step %d/30 loss 0.5", "-| %d/30 [00:01<00:30, 1.00s/it]"
	// bars whose total is not read, with an evaluation's after every five steps
	untold := func(from, to, of int) string { return steps("-1%% %d/"+fmt.Sprint(of)+" [00:01<00:30]", from, to) }
	evaluated := untold(1, 5, 30) + "; " + untold(1, 7, 7) + "; " + untold(6, 10, 30) + "; " + untold(1, 7, 7)
	saved := steps(loss, 1, 10) + "; saved out/0010.pt; " + steps(loss, 11, 12)
	at := func(n string) State { return State{Path: "/w/out/" + n} }
	for name, tt := range map[string]struct {
		before      string
		state       State
		after       string
		want        string
		first, from int64
	}{
		"it goes on":                  {saved, at("0010.pt"), steps(loss, 11, 30), Resumed, 11, 10},
		"it begins at 1":              {saved, at("0010.pt"), steps(loss, 1, 30), Restarted, 1, 10},
		"at once":                     {saved, at("0010.pt"), "step 1/30 loss 3", Restarted, 1, 10},
		"it begins at an older state": {saved, at("0010.pt"), steps(loss, 6, 30), Restarted, 6, 10},
		"it repeats the saved step":   {saved, at("0010.pt"), steps(loss, 10, 30), Resumed, 10, 10},
		"nothing yet":                 {saved, at("0010.pt"), "", NotChecked, 0, 0},
		"only what it reads": {saved, at("0010.pt"), "loading out/0010.pt at step 10/30",
			NotChecked, 0, 0},
		"a state of the first step": {"step 1/30 loss 3; saved out/1.pt", at("1.pt"), steps(loss, 1, 3),
			NotChecked, 0, 0},
		"which goes on": {"step 1/30 loss 3; saved out/1.pt", at("1.pt"), steps(loss, 2, 3),
			Resumed, 2, 1},
		"a state without a number": {strings.ReplaceAll(saved, "0010", "last"), at("last.pt"), steps(loss,
			1, 3), Restarted, 1, 10},
		"the same, and it goes on": {strings.ReplaceAll(saved, "0010", "last"), at("last.pt"), steps(loss,
			11, 13), Resumed, 11, 10},
		"its step is in no report": {steps(loss, 1, 12), at("last.pt"), steps(loss, 1, 3), NotChecked, 0, 0},
		"its name has the step":    {steps(loss, 1, 12), at("0010.pt"), steps(loss, 1, 3), Restarted, 1, 10},
		"its name has another number": {steps(loss, 1, 12), at("psnr-2713.pt"), steps(loss, 1, 3),
			NotChecked, 0, 0},
		"another state was the last": {steps(loss, 1, 5) + "; saved out/0005.pt; " + steps(loss, 6, 9) +
			"; saved out/0009.pt", at("0005.pt"), steps(loss, 6, 9), Resumed, 6, 5},
		"no report before": {"", at("0010.pt"), steps(loss, 1, 3), NotChecked, 0, 0},
		"every 50th step": {"step 50 loss 1; saved out/60.pt", at("60.pt"), "step 100 loss 1",
			Resumed, 100, 60},
		"every 50th, from a state of 10": {"saved out/10.pt; step 50 loss 1", at("10.pt"), "step 50 loss 1",
			NotChecked, 0, 0},
		"every 50th, from the beginning": {"step 50 loss 1; step 100 loss 1; saved out/110.pt", at("110.pt"),
			"step 50 loss 1", Restarted, 50, 110},
		"counted from 0": {steps("step %d loss 1", 0, 9) + "; saved out/10.pt", at("10.pt"),
			steps("step %d loss 1", 10, 12), Resumed, 10, 10},
		"from 0 again": {steps("step %d loss 1", 0, 9) + "; saved out/10.pt", at("10.pt"),
			"step 0 loss 3", Restarted, 0, 10},
		"epochs, and states of steps": {steps("epoch %d done loss 1", 1, 3) + "; saved out/3000.pt",
			at("3000.pt"), steps("epoch %d done loss 1", 4, 5), Resumed, 4, 3},
		"the same from the beginning": {steps("epoch %d done loss 1", 1, 3) + "; saved out/3000.pt",
			at("3000.pt"), "epoch 1 done loss 1", Restarted, 1, 3},
		"a count of each epoch": {steps(loss, 1, 30) + "; " + steps(loss, 1, 10) + "; saved out/1.pt",
			at("1.pt"), steps(loss, 1, 3),
			NotChecked, 0, 0},
		"which is full": {steps(loss, 1, 30) + "; saved out/1.pt", at("1.pt"), steps(loss, 1, 3), NotChecked, 0, 0},
		"with the epoch's number": {steps("epoch 1 it [%d/9] loss 1", 1, 9) + "; " +
			steps("epoch 2 it [%d/9] loss 1", 1, 9) + "; saved out/2.pt", at("2.pt"),
			steps("epoch 3 it [%d/9] loss 1", 1, 3), NotChecked, 0, 0},
		"and a part of it": {steps("epoch 1 it [%d/9] loss 1", 1, 9) + "; " + steps("epoch 2 it [%d/9] loss 1",
			1, 5) + "; saved out/2.pt", at("2.pt"),
			steps("epoch 2 it [%d/9] loss 1", 1, 3), Resumed, 2, 2},
		"from the first epoch": {steps("epoch 1 it [%d/9] loss 1", 1, 9) + "; " +
			steps("epoch 2 it [%d/9] loss 1", 1, 5) + "; saved out/2.pt", at("2.pt"),
			"epoch 1 it [1/9] loss 1", Restarted, 1, 2},
		"the first epoch alone": {steps("epoch 1 it [%d/9] loss 1", 1, 5) + "; saved out/2.pt", at("2.pt"),
			"epoch 1 it [1/9] loss 1", NotChecked, 0, 0},
		"the first epoch, after its step": {"epoch 0, iter 1 loss 1; epoch 0, iter 2 loss 1; saved out/1.pt", at("1.pt"),
			"epoch 0, iter 2 loss 1; epoch 0, iter 3 loss 1", Resumed, 2, 1},
		"the first epoch, a state before its end": {"epoch 0, iter 1 loss 1; " +
			"epoch 0, iter 2 loss 1; epoch 0, iter 3 loss 1; epoch 0, iter 4 loss 1",
			at("2.pt"), "epoch 0, iter 3 loss 1", Resumed, 3, 2},
		"the first epoch, every 2nd step": {"epoch 0, iter 2 loss 1; epoch 0, iter 4 loss 1; saved out/3.pt", at("3.pt"),
			"epoch 0, iter 4 loss 1", NotChecked, 0, 0},
		"the first epoch, from its beginning": {"epoch 0, iter 1 loss 1; epoch 0, iter 2 loss 1; saved out/1.pt",
			at("1.pt"), "epoch 0, iter 1 loss 1; epoch 0, iter 2 loss 1", NotChecked, 0, 0},
		"a bar that begins there": {steps(bar, 1, 10) + "; saved out/10.pt", at("10.pt"),
			"-| 10/30 [00:00<?, ?it/s]; " + steps(bar, 11, 14), Resumed, 10, 10},
		"a bar from 0": {"-| 0/30 [00:00<?, ?it/s]; " + steps(bar, 1, 10) + "; saved out/10.pt",
			at("10.pt"), "-| 0/30 [00:00<?, ?it/s]; " + steps(bar, 1, 14), Restarted, 1, 10},
		"a bar that passes over": {steps(bar, 1, 10) + "; saved out/10.pt", at("10.pt"),
			steps("-fast | %d/30 [00:01<00:30, 1.00s/it]", 1, 10) + "; " + steps(bar, 11, 14), NotChecked, 0, 0},
		"a bar of what is left": {steps(bar, 1, 10) + "; saved out/10.pt", at("10.pt"),
			steps("-| %d/20 [00:01<00:30, 1.00s/it]", 1, 3), Resumed, 1, 10},
		"a bar of something else": {steps(bar, 1, 10) + "; saved out/10.pt", at("10.pt"),
			steps("-| %d/7 [00:01<00:30, 1.00s/it]", 1, 3), NotChecked, 0, 0},
		"a bar, and a log": {steps(bar, 1, 10) + "; " + steps("step %d loss 1", 1, 10) + "; saved out/10.pt",
			at("10.pt"),
			steps("-| %d/30 [00:01<00:30, 1.00s/it]", 1, 5) + "; step 11 loss 1; step 12 loss 1", Resumed, 11, 10},
		"steps that are passed over": {saved, at("0010.pt"), steps("skipping step %d/30", 1, 10) +
			"; step 11/30 loss 1", Resumed, 11, 10},
		"the same without a word": {saved, at("0010.pt"), steps("step %d/30", 1, 10) +
			"; step 11/30 loss 1", Resumed, 11, 10},
		"an evaluation's bar as well": {steps(bar, 1, 10) + "; -| 5/5 [00:01<00:00]; saved out/10.pt",
			at("10.pt"), "-| 1/5 [00:01<00:00]; -| 11/30 [00:01<00:30]", Resumed, 11, 10},
		"beside an evaluation's": {evaluated + "; saved out/10.pt", at("10.pt"), untold(11, 15, 30) + "; " +
			untold(1, 7, 7), Resumed, 11, 10},
		"beside it, from the beginning": {evaluated + "; saved out/10.pt", at("10.pt"), evaluated, Restarted, 1, 10},
		"beside it, not reported": {evaluated + "; " + untold(11, 12, 30), at("checkpoint-10"), evaluated,
			Restarted, 1, 10},
		"an evaluation's first": {evaluated + "; saved out/10.pt", at("10.pt"), untold(1, 7, 7) + "; " +
			untold(11, 12, 30), NotChecked, 0, 0},
		"an evaluation's, cut off": {untold(1, 10, 30) + "; " + untold(1, 500, 900), at("checkpoint-10"),
			untold(1, 400, 900), NotChecked, 0, 0},
		"what is left, untold": {untold(1, 10, 30) + "; saved out/10.pt", at("10.pt"), untold(1, 5, 20), Resumed, 1, 10},
		"passed over, untold": {untold(1, 10, 30) + "; saved out/10.pt", at("10.pt"),
			steps("-fast 1%% %d/30 [00:01<00:30]", 1, 10) + "; " + untold(11, 14, 30), NotChecked, 0, 0},
		"an epoch's, untold": {untold(1, 9, 9) + "; " + untold(1, 9, 9) + "; saved out/2.pt", at("2.pt"),
			untold(1, 9, 9), NotChecked, 0, 0},
		"an epoch's, ended": {untold(1, 9, 9) + "; saved out/2.pt", at("2.pt"), untold(1, 9, 9), NotChecked, 0, 0},
		"a log beside a bar": {untold(1, 10, 30) + "; " + steps("step %d loss 1", 1, 10) + "; saved out/10.pt",
			at("10.pt"), untold(1, 4, 40) + "; " + steps("step %d loss 1", 1, 4), Restarted, 1, 10},
	} {
		before := printed(t, tt.before, time.Second)
		before.Placed(&tt.state)
		after := printed(t, tt.after, time.Second)
		got := tt.state.FollowedBy(after.All(), 1)
		if got.State != tt.want || got.First != tt.first || got.Saved != tt.from {
			t.Errorf("%s: %+v (%s); want %s, %d after %d", name, got, got.Text(), tt.want, tt.first, tt.from)
		}
	}
}

// Where accumulation doubles, and the program counts forward passes, the state of pass 10 is one of pass 20.
func TestFollowedByScale(t *testing.T) {
	before := printed(t, steps("step %d loss 1", 1, 10)+"; saved out/last.pt", time.Second)
	s := State{Path: "/w/out/last.pt", Accumulation: 1}
	before.Placed(&s)
	p := &Plan{Resume: &s, Batch: job.Batch{Accumulation: 2}}
	scale := p.Scale(job.Signs{CountsMicro: true})
	for line, want := range map[string]string{"step 21 loss 1": Resumed, "step 1 loss 3": Restarted} {
		if got := s.FollowedBy(printed(t, line, time.Second).All(), scale); got.State != want {
			t.Errorf("%s: %s, want %s", line, got.State, want)
		}
	}
}

// What was trained is counted over restarts, and a later resume does not make the result a plain success.
func TestTrained(t *testing.T) {
	r := &Run{Job: &job.Job{Signs: counted}}
	from := &State{Path: "/w/out/3.pt", Iteration: 3}
	printed(t, steps("step %d/6 loss 1", 1, 3)+"; saved out/3.pt", time.Second).Placed(from)
	again := func(p *Plan, lines string, ending Ending, to int64) Outcome {
		o := Outcome{Ending: ending, Iteration: to, Total: 6, Stepped: true, Varied: true, Figures: true,
			Courses: printed(t, lines, time.Second).All()}
		r.weigh(p, &o)
		return o
	}
	p := &Plan{Attempt: 2, Resume: from}
	second := again(p, steps("step %d/6 loss 1", 1, 4), OutOfMemory, 4)
	if second.Resumption.State != Restarted || second.Trained != 7 || second.Doubtful != "" {
		t.Errorf("the restart: %+v, trained %d, %q", second.Resumption, second.Trained, second.Doubtful)
	}
	next := &State{Path: "/w/out/4.pt", Iteration: 4}
	printed(t, steps("step %d/6 loss 1", 1, 4)+"; saved out/4.pt", time.Second).Placed(next)
	next.Descend(p, second.Resumption)
	third := again(&Plan{Attempt: 3, Resume: next}, steps("step %d/6 loss 1", 5, 6), Succeeded, 6)
	if third.Resumption.State != Resumed || third.Trained != 9 || !strings.Contains(third.Doubtful,
		"9 steps were trained in all, of 6") {
		t.Errorf("after it: %+v, trained %d, %q", third.Resumption, third.Trained, third.Doubtful)
	}
	plain := again(&Plan{Attempt: 2, Resume: from}, steps("step %d/6 loss 1", 4, 6), Succeeded, 6)
	if plain.Doubtful != "" || plain.Trained != 0 {
		t.Errorf("a resume that went on is doubtful: %q, %d", plain.Doubtful, plain.Trained)
	}
}

// A success is weighed by how far the program came, by its success line, and by the reason that it printed.
func TestDoubtful(t *testing.T) {
	for name, tt := range map[string]struct {
		lines    string
		claimed  bool
		early    string
		doubtful bool
	}{
		"half of the steps":          {steps("step %d/6 loss 1", 1, 3), false, "", true},
		"all of them":                {steps("step %d/6 loss 1", 1, 6), false, "", false},
		"all, counted from 0":        {steps("step %d/6 loss 1", 0, 5), false, "", false},
		"half, and its success line": {steps("step %d/6 loss 1", 1, 3), true, "", false},
		"half, and its reason": {steps("step %d/6 loss 1", 1, 3) +
			"; Early stopping: no gain in 5 epochs", false, "Early stopping: no gain in 5 epochs", false},
		"it waits for its reason": {steps("step %d/6 loss 1", 1, 3) +
			"; EarlyStopping counter: 1 out of 7", false, "", true},
		"the reason is a setting": {"early_stopping: true; early stopping 5; " + steps("step %d/6 loss 1",
			1, 3), false, "", true},
		"every 50th step":             {"step 50/120 loss 1; step 100/120 loss 1", false, "", false},
		"half of them, every 50th":    {"step 50/120 loss 1", false, "", true},
		"every fifth, counted from 0": {"step 0/10 loss 1; step 5/10 loss 1", false, "", false},
		"every fifth, counted from 5": {"step 5/10 loss 1", false, "", true},
		"the patience is over": {steps("step %d/60 loss 1", 1, 9) +
			"; patience of 5 reached, stopping training", false, "patience of 5 reached, stopping training", false},
		"a limit of Lightning's": {steps("step %d/60 loss 1", 1, 9) + "; Trainer.fit stopped: max_steps=9 reached.", false,
			"Trainer.fit stopped: max_steps=9 reached.", false},
		"it came to its target": {steps("step %d/60 loss 1", 1, 9) + "; Reached target accuracy 0.99", false,
			"Reached target accuracy 0.99", false},
		"it converged": {steps("step %d/60 loss 1", 1, 9) + "; Converged after 9 steps", false,
			"Converged after 9 steps", false},
		"nothing is gained": {steps("step %d/60 loss 1", 1, 9) + "; val loss stopped improving", false,
			"val loss stopped improving", false},
		"its loss is no number": {steps("step %d/60 loss 1", 1, 9) + "; Loss is nan, stopping training", false, "", true},
		"it diverged":           {steps("step %d/60 loss 1", 1, 9) + "; training diverged: stopping early", false, "", true},
		"counted by epoch, to the end": {steps("step %d/6 loss 1", 1, 6) + "; " + steps("step %d/6 loss 1", 1,
			2), false, "", false},
	} {
		c := printed(t, tt.lines, time.Second)
		main := mainCourse(c.All())
		most := int64(0)
		for _, line := range strings.Split(tt.lines, "; ") {
			var n, of int64
			if _, err := fmt.Sscanf(line, "step %d/%d", &n, &of); err == nil {
				most = max(most, n)
			}
		}
		o := Outcome{Ending: Succeeded, Stepped: true, Varied: true, Iteration: most, Total: main.Total,
			Claimed: tt.claimed,
			Early:   c.Early(), Courses: c.All()}
		(&Run{Job: &job.Job{Signs: counted}}).weigh(&Plan{}, &o)
		if (o.Doubtful != "") != tt.doubtful || o.Early != tt.early {
			t.Errorf("%s: doubtful %q, its reason %q", name, o.Doubtful, o.Early)
		}
	}
}

// A program that finds its state by itself does not start over, whatever launch has printed.
func TestWentOn(t *testing.T) {
	epoch := func(first, last int64) *Course {
		return &Course{Total: 8, First: Place{Iteration: 0, Epoch: &first}, Last: Place{Iteration: 7, Epoch: &last}}
	}
	steps := func(first, gap int64) *Course {
		return &Course{Total: 100, First: Place{Iteration: first}, Last: Place{Iteration: first + 9}, Gap: gap}
	}
	for name, tt := range map[string]struct {
		plan   Plan
		course *Course
		want   string
	}{
		"from its first step":      {Plan{Attempt: 2}, steps(1, 1), ""},
		"from a later one":         {Plan{Attempt: 2}, steps(40, 1), "it did not start over: its first step is 40; "},
		"that was to resume":       {Plan{Attempt: 2, Resume: &State{}}, steps(40, 1), ""},
		"as it was asked":          {Plan{Attempt: 1}, steps(40, 1), ""},
		"a trial":                  {Plan{Attempt: 2, Trial: Rehearsal}, steps(40, 1), ""},
		"a report every 40 steps":  {Plan{Attempt: 2}, steps(40, 40), ""},
		"one report":               {Plan{Attempt: 2}, steps(40, 0), ""},
		"the first epoch":          {Plan{Attempt: 2}, epoch(0, 3), ""},
		"counted from one":         {Plan{Attempt: 2}, epoch(1, 3), ""},
		"a later epoch":            {Plan{Attempt: 2}, epoch(3, 5), "it did not start over: its first epoch is 3; "},
		"nothing that it reported": {Plan{Attempt: 2}, nil, ""},
	} {
		o := &Outcome{}
		if tt.course != nil {
			o.Courses = []Course{*tt.course}
		}
		if got := tt.plan.wentOn(o); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
