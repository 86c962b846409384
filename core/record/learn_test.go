package record

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

var (
	host = Machine{Kind: "cpu", Torch: "2.9", Allocator: "MALLOC_ARENA_MAX=1"}
	card = Machine{Kind: "cuda", Card: "RTX 3060", Total: 12 * unit.GiB, Capability: "8.6", Driver: "550.1", Torch: "2.9+cu128"}
)

const mib = unit.MiB

// priced is an estimate that grows by 10 MiB a sample, as a plugin would price it for a machine.
func priced(micro int64, on Machine) mem.Estimate {
	var e mem.Estimate
	e.Add(mem.Item{Kind: mem.Parameters, Bytes: 40 * mib}, mem.Item{Kind: mem.Saved, Bytes: unit.Bytes(micro) * 10 * mib})
	if on.Kind == "cpu" {
		e.Add(mem.Item{Kind: mem.Runtime, Bytes: 200 * mib, Guess: true})
	} else {
		e.Add(mem.Item{Kind: mem.Slack, Bytes: unit.Bytes(micro) * mib, Guess: true}, mem.Item{Kind: mem.Context, Bytes: 300 * mib, Guess: true})
	}
	return e
}

func key(arch string, micro int64) ReceiptKey {
	return ReceiptKey{Plugin: "p", Arch: arch, Phase: "training", Program: "x", Project: "w", Python: "py",
		Settings: map[string]string{"micro-batch": strconv.FormatInt(micro, 10), "crop": "64"}}
}

var clock = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// took is a receipt of net at a micro-batch, a minute newer than the one made before it.
func took(micro int64, on Machine, ms ...mem.Measurement) Receipt {
	clock = clock.Add(time.Minute)
	return Receipt{Version: 1, Run: fmt.Sprintf("run-%d", clock.Unix()), Attempt: 1, Time: clock, Job: key("net", micro), Machine: on,
		Predicted: priced(micro, on), Measured: ms, Ending: "succeeded"}
}

func data(b unit.Bytes, bound mem.Bound) mem.Measurement {
	return mem.Measurement{Is: mem.Data, Bytes: b * mib, Bound: bound}
}
func live(b unit.Bytes, bound mem.Bound) mem.Measurement {
	return mem.Measurement{Is: mem.Allocated, Bytes: b * mib, Bound: bound}
}
func used(b unit.Bytes, bound mem.Bound) mem.Measurement {
	return mem.Measurement{Is: mem.Used, Bytes: b * mib, Bound: bound}
}

func with(r Receipt, change func(*Receipt)) Receipt {
	change(&r)
	return r
}

// today prices what the rungs of a ladder have: micro-batches up to 64.
func today(on Machine) func(ReceiptKey) (mem.Estimate, bool) {
	return func(k ReceiptKey) (mem.Estimate, bool) {
		n, _ := strconv.ParseInt(k.Settings["micro-batch"], 10, 64)
		return priced(n, on), n <= 64
	}
}

func TestLearn(t *testing.T) {
	for name, tt := range map[string]struct {
		on       Machine
		receipts []Receipt
		micro    int64
		least    unit.Bytes // MiB
		most     unit.Bytes
		guess    bool // a line of the corrected estimate is one
	}{
		"nothing":                        {host, nil, 16, 400, 400, true},
		"the measurement itself, less":   {host, []Receipt{took(16, host, data(370, mem.Exact))}, 16, 370, 370, false},
		"the measurement itself, more":   {host, []Receipt{took(16, host, data(500, mem.Exact))}, 16, 500, 500, false},
		"what was sampled counts too":    {host, []Receipt{took(16, host, data(370, mem.Sampled))}, 16, 370, 370, false},
		"but not below counted lines":    {host, []Receipt{took(16, host, data(90, mem.Sampled))}, 16, 200, 200, false},
		"a counter may":                  {host, []Receipt{took(16, host, data(180, mem.Exact))}, 16, 180, 180, false},
		"half the size: mostly constant": {host, []Receipt{took(32, host, data(520, mem.Exact))}, 16, 360, 362, true},
		"twice the size":                 {host, []Receipt{took(16, host, data(370, mem.Exact))}, 32, 529, 530, true},
		"between two, straight":          {host, []Receipt{took(8, host, data(300, mem.Exact)), took(24, host, data(500, mem.Exact))}, 16, 400, 400, false},
		"beyond two, on their slope":     {host, []Receipt{took(8, host, data(320, mem.Exact)), took(24, host, data(512, mem.Exact))}, 32, 600, 615, false},
		"of several at a size the median": {host, []Receipt{took(16, host, data(370, mem.Exact)), took(16, host, data(9000, mem.Exact)),
			took(16, host, data(372, mem.Exact))}, 16, 372, 372, false},
		"the newest five of a size": {host, append([]Receipt{took(16, host, data(900, mem.Exact)), took(16, host, data(900, mem.Exact)), took(16, host, data(900, mem.Exact)), took(16, host, data(900, mem.Exact)), took(16, host, data(900, mem.Exact)), took(16, host, data(900, mem.Exact))},
			took(16, host, data(370, mem.Exact)), took(16, host, data(370, mem.Exact)), took(16, host, data(370, mem.Exact)), took(16, host, data(370, mem.Exact)), took(16, host, data(370, mem.Exact))), 16, 370, 370, false},
		"it failed there":                    {host, []Receipt{took(16, host, data(450, mem.AtLeast))}, 16, 450, 450, false},
		"it failed with less than is priced": {host, []Receipt{took(16, host, data(300, mem.AtLeast))}, 16, 400, 400, true},
		"it failed, and passed later":        {host, []Receipt{took(16, host, data(450, mem.AtLeast)), took(16, host, data(410, mem.Exact))}, 16, 410, 410, false},
		"it passed, and failed later":        {host, []Receipt{took(16, host, data(410, mem.Exact)), took(16, host, data(450, mem.AtLeast))}, 16, 450, 450, false},
		"a failure that others explain":      {host, []Receipt{took(8, host, data(500, mem.Exact)), took(24, host, data(700, mem.Exact)), took(16, host, data(450, mem.AtLeast))}, 16, 600, 600, false},
		"an upper bound teaches nothing":     {host, []Receipt{took(16, host, data(370, mem.AtMost))}, 16, 400, 400, true},
		"resident is another quantity":       {host, []Receipt{took(16, host, mem.Measurement{Is: mem.Resident, Bytes: 250 * mib})}, 16, 400, 400, true},
		"of another torch":                   {host, []Receipt{with(took(16, host, data(370, mem.Exact)), func(r *Receipt) { r.Machine.Torch = "1.13" })}, 16, 400, 400, true},
		"of another heap":                    {host, []Receipt{with(took(16, host, data(370, mem.Exact)), func(r *Receipt) { r.Machine.Allocator = "" })}, 16, 400, 400, true},
		"another architecture: the runtime":  {host, []Receipt{with(took(1, host, data(210, mem.Exact)), func(r *Receipt) { r.Job = key("other", 1) })}, 16, 359, 361, false},
		"another phase: the runtime":         {host, []Receipt{with(took(1, host, data(210, mem.Exact)), func(r *Receipt) { r.Job.Phase = "validation" })}, 16, 359, 361, false},
		"wildly less of another: a quarter":  {host, []Receipt{with(took(1, host, data(1, mem.Exact)), func(r *Receipt) { r.Job = key("other", 1) })}, 16, 250, 250, false},
		"a large one hides the runtime":      {host, []Receipt{with(took(400, host, data(4200, mem.Exact)), func(r *Receipt) { r.Job = key("other", 400) })}, 16, 390, 400, false},
		"the formula has changed": {host, []Receipt{with(took(16, host, data(370, mem.Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 })},
			16, 370, 370, false},
		"and what is priced no more is left": {host, []Receipt{with(took(8, host, data(320, mem.Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 }),
			with(took(100, host, data(900, mem.Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 })}, 16, 400, 401, false},

		"a card: what the driver saw":           {card, []Receipt{took(16, card, used(700, mem.Sampled))}, 16, 700, 700, false},
		"the print and the driver":              {card, []Receipt{took(16, card, live(210, mem.Exact), used(640, mem.Sampled))}, 16, 640, 640, false},
		"the print alone: the rest as it was":   {card, []Receipt{took(16, card, live(220, mem.Exact))}, 16, 220 + 316, 220 + 316, true},
		"of another card: live tensors":         {card, []Receipt{with(took(16, card, live(220, mem.Exact), used(900, mem.Sampled)), func(r *Receipt) { r.Machine.Card = "H100" })}, 16, 536, 536, true},
		"of another driver on this card":        {card, []Receipt{with(took(16, card, live(220, mem.Exact), used(640, mem.Sampled)), func(r *Receipt) { r.Machine.Driver = "1" })}, 16, 640, 640, false},
		"of this driver, which counts more":     {card, []Receipt{took(16, card, used(640, mem.Sampled)), with(took(16, card, used(900, mem.Sampled)), func(r *Receipt) { r.Machine.Driver = "1" })}, 16, 640, 640, false},
		"taken over from an earlier phase":      {card, []Receipt{took(16, card, used(640, mem.AtMost))}, 16, 516, 516, true},
		"another job on this card: the context": {card, []Receipt{with(took(16, card, live(200, mem.Exact), used(450, mem.Sampled)), func(r *Receipt) { r.Job = key("other", 16) })}, 16, 449, 453, true},
		"a message reports the context": {card, []Receipt{with(took(16, card, live(500, mem.AtLeast), used(700, mem.AtLeast), mem.Measurement{Is: mem.Reserved, Bytes: 550 * mib, Bound: mem.AtLeast}),
			func(r *Receipt) { r.Job = key("other", 16) })}, 16, 366, 366, true},
	} {
		of := key("net", tt.micro)
		e := priced(tt.micro, tt.on)
		got := learn(tt.receipts, of, tt.on, today(tt.on)).apply(e, of)
		if total := got.Total(); total < tt.least*mib-mib/2 || total > tt.most*mib+mib/2 {
			t.Errorf("%s: %v, want %d to %d MiB: %+v", name, total, tt.least, tt.most, got.Items)
		}
		if guess := slices.ContainsFunc(got.Items, func(it mem.Item) bool { return it.Guess }); guess != tt.guess {
			t.Errorf("%s: guessed lines: %v, want %v: %+v", name, guess, tt.guess, got.Items)
		}
		if got.Total() != e.Total() && len(got.Learned) == 0 {
			t.Errorf("%s: it does not say which receipts it used", name)
		}
		if again := priced(tt.micro, tt.on); again.Total() != e.Total() {
			t.Errorf("%s: the estimate that was given was changed", name)
		}
	}
}

// With any receipts the total falls with the price, all the way down the ladder.
func TestLearnedLadderFalls(t *testing.T) {
	for name, rs := range map[string][]Receipt{
		"less for more":       {took(8, host, data(600, mem.Exact)), took(16, host, data(300, mem.Exact))},
		"zigzag":              {took(2, host, data(500, mem.Exact)), took(4, host, data(250, mem.Exact)), took(8, host, data(700, mem.Exact)), took(16, host, data(260, mem.Exact)), took(32, host, data(261, mem.Exact))},
		"nothing at the top":  {took(64, host, data(1, mem.Exact))},
		"wild at the bottom":  {took(1, host, data(90000, mem.Exact))},
		"failed at the least": {took(1, host, data(5000, mem.AtLeast)), took(64, host, data(800, mem.Exact))},
	} {
		for _, on := range []Machine{host, card} {
			for i := range rs {
				rs[i].Machine, rs[i].Predicted = on, priced(number1(rs[i]), on)
				if m := rs[i].Measured[0]; on.Kind == "cuda" {
					rs[i].Measured = []mem.Measurement{{Is: mem.Used, Bytes: m.Bytes, Bound: m.Bound}, {Is: mem.Allocated, Bytes: m.Bytes * 9 / 10, Bound: m.Bound}}
				}
			}
			l := learn(rs, key("net", 16), on, today(on))
			above := unit.Bytes(math.MaxInt64)
			for n := int64(64); n >= 1; n-- {
				total := l.apply(priced(n, on), key("net", n)).Total()
				if total >= above {
					t.Errorf("%s on %s: %v at micro-batch %d, %v at %d", name, on.Kind, total, n, above, n+1)
				}
				above = total
			}
		}
	}
}

func number1(r Receipt) int64 {
	n, _ := strconv.ParseInt(r.Job.Settings["micro-batch"], 10, 64)
	return n
}

// Without a formula.
func TestLearnLine(t *testing.T) {
	unknown := func(micro int64, m mem.Measurement, change ...func(*Receipt)) Receipt {
		r := took(micro, host, m)
		r.Predicted = mem.Estimate{Unknown: "no formula"}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	other := func(r *Receipt) { r.Job.Program = "y" }
	crop := func(r *Receipt) {
		r.Job.Settings = map[string]string{"micro-batch": r.Job.Settings["micro-batch"], "crop": "128"}
	}
	accumulated := func(r *Receipt) {
		r.Job.Settings = map[string]string{"micro-batch": r.Job.Settings["micro-batch"], "crop": "64", "accumulation": "4"}
	}
	part := mem.Estimate{Unknown: "no formula", Items: []mem.Item{{Kind: mem.Parameters, Bytes: 100 * mib}}}
	for name, tt := range map[string]struct {
		e        mem.Estimate
		receipts []Receipt
		micro    int64
		want     unit.Bytes // MiB; 0: still unknown
		guess    bool
	}{
		"nothing":                        {part, nil, 8, 0, false},
		"these settings":                 {part, []Receipt{unknown(8, data(500, mem.Sampled))}, 8, 500, false},
		"split otherwise":                {part, []Receipt{unknown(8, data(500, mem.Sampled), accumulated)}, 8, 500, false},
		"in proportion, above what is":   {part, []Receipt{unknown(8, data(500, mem.Sampled))}, 4, 300, true},
		"in proportion, nothing counted": {mem.Estimate{Unknown: "no formula"}, []Receipt{unknown(8, data(500, mem.Sampled))}, 16, 1000, true},
		"a line":                         {part, []Receipt{unknown(4, data(300, mem.Exact)), unknown(8, data(500, mem.Exact))}, 6, 400, false},
		"a line, far":                    {part, []Receipt{unknown(4, data(300, mem.Exact)), unknown(8, data(500, mem.Exact))}, 32, 1700, true},
		"another program":                {part, []Receipt{unknown(8, data(500, mem.Exact), other)}, 8, 0, false},
		"another setting":                {part, []Receipt{unknown(8, data(500, mem.Exact), crop)}, 8, 0, false},
		"it failed elsewhere":            {part, []Receipt{unknown(8, data(500, mem.AtLeast))}, 4, 0, false},
		"a line, between": {part, []Receipt{unknown(4, data(300, mem.Exact)), unknown(8, data(310,
			mem.Exact)), unknown(16, data(702, mem.Exact))}, 10, 408, false},
		"a line, not below a smaller": {part, []Receipt{unknown(4, data(300, mem.Exact)), unknown(8, data(700,
			mem.Exact)), unknown(16, data(708, mem.Exact))}, 9, 701, false},
		"nor beyond, below the largest": {part, []Receipt{unknown(2, data(900, mem.Exact)), unknown(4, data(110,
			mem.Exact)), unknown(8, data(110, mem.Exact))}, 16, 900, false},
		"in proportion, twice": {part, []Receipt{unknown(4, data(300, mem.Exact)), unknown(16, data(700,
			mem.AtLeast))}, 8, 500, true},
		"failed in less than it took": {part, []Receipt{unknown(8, data(500, mem.Exact)), unknown(8, data(400,
			mem.AtLeast))}, 8, 500, false},
		"failed, and passed later": {part, []Receipt{unknown(8, data(700, mem.AtLeast)), unknown(8, data(500,
			mem.Exact))}, 8, 500, false},
		"failed, and a larger passed": {part, []Receipt{unknown(8, data(700, mem.AtLeast)), unknown(16, data(500,
			mem.Exact))}, 16, 500, false},
		"a peak between two samples": {part, []Receipt{unknown(8, data(700, mem.AtLeast)), unknown(8, data(690,
			mem.Sampled))}, 8, 700, false},
	} {
		of := key("net", tt.micro)
		got := learn(tt.receipts, of, host, func(ReceiptKey) (mem.Estimate,
			bool) {
			return mem.Estimate{Unknown: "no formula"}, true
		}).apply(tt.e, of)
		if tt.want == 0 {
			if got.Known() || len(got.Learned) > 0 {
				t.Errorf("%s: %+v, want it to stay unknown", name, got)
			}
			continue
		}
		if !got.Known() || got.Total() != tt.want*mib || got.Items[len(got.Items)-1].Guess != tt.guess || len(got.Learned) == 0 {
			t.Errorf("%s: %v, want %d MiB, guess %v: %+v", name, got.Total(), tt.want, tt.guess, got)
		}
	}
}

// Where these settings or a smaller micro-batch failed with more than the line has, the need is unknown, with a lower
// bound, and nothing refuses it.
func TestLineThatFailed(t *testing.T) {
	part := mem.Estimate{Unknown: "no formula", Items: []mem.Item{{Kind: mem.Parameters, Bytes: 100 * mib}}}
	rs := []Receipt{
		took(4, host, data(300, mem.Exact)),
		took(8, host, data(900, mem.AtLeast)),
		took(16, host, data(800, mem.Exact)),
		took(16, host, data(950, mem.AtLeast)),
	}
	for i := range rs {
		rs[i].Predicted = part
	}
	for _, tt := range []struct {
		micro int64
		least unit.Bytes // MiB; 0: it is known
		says  string
	}{{4, 0, ""}, {6, 0, ""}, {8, 900, "these settings ran out"}, {10, 900, "micro-batch 8 ran out"}, {16, 950,
		"these settings"}, {64, 0, ""}} {
		of := key("net", tt.micro)
		got := learn(rs, of, host, func(ReceiptKey) (mem.Estimate, bool) { return part, true }).apply(part, of)
		if tt.least == 0 != got.Known() || tt.least > 0 && got.Least() != tt.least*mib ||
			!strings.Contains(got.Unknown, tt.says) {
			t.Errorf("micro-batch %d: %v, at least %v, want %d MiB: %+v", tt.micro, got.Total(), got.Least(), tt.least, got)
		}
		if v := ladder.Judge(got, 500*mib); tt.least > 0 && v != ladder.May {
			t.Errorf("micro-batch %d %v in a room that it ran out of", tt.micro, v)
		}
		if v := ladder.Judge(got, 200*mib); v == ladder.Not {
			t.Errorf("micro-batch %d is refused by receipts alone", tt.micro)
		}
	}
}

// On a card a phase that failed needs at least the most that is known of it.
func TestTotalOfFailure(t *testing.T) {
	for _, tt := range []struct {
		ms   []mem.Measurement
		want float64
	}{
		{[]mem.Measurement{live(900, mem.AtLeast), used(700, mem.AtLeast)}, 900},
		{[]mem.Measurement{live(500, mem.AtLeast), used(700, mem.AtLeast)}, 700},
		{[]mem.Measurement{live(900, mem.Exact), used(700, mem.Sampled)}, 700},
	} {
		if got, _, _ := total(took(8, card, tt.ms...), mem.Estimate{}); got != tt.want*float64(mib) {
			t.Errorf("%+v: %v, want %v MiB", tt.ms, unit.Bytes(got), tt.want)
		}
	}
}

// If the only receipt is of an out-of-memory, the need stays unknown, with a lower bound.
func TestLearnAtLeast(t *testing.T) {
	e := mem.Estimate{Items: []mem.Item{{Kind: mem.Buffers, What: "queue", Bytes: 100 * mib}}, Unknown: "no formula"}
	r := took(8, host, data(500, mem.AtLeast))
	r.Predicted = e
	got := learn([]Receipt{r}, key("net", 8), host, func(ReceiptKey) (mem.Estimate, bool) { return e, true }).apply(e,
		key("net", 8))
	if got.Known() || got.Least() != 500*mib || len(got.Learned) == 0 || !strings.Contains(got.Unknown, "ran out of memory") {
		t.Errorf("%+v", got)
	}
	if l := e.Least(); l != 100*mib {
		t.Errorf("before it failed %v, want what is counted", l)
	}
}

func TestLearnSaysFromWhere(t *testing.T) {
	r := took(16, host, data(370, mem.Exact))
	e := learn([]Receipt{r}, key("net", 16), host, today(host)).apply(priced(16, host), key("net", 16))
	for _, it := range e.Items {
		if (it.Kind == mem.Runtime || it.Kind == mem.Correction) && !strings.Contains(it.From, "run "+r.Run+" of 2026-11-01") {
			t.Errorf("the line %s is from %q", it.Kind, it.From)
		}
	}
	if !slices.Equal(e.Learned, []string{r.id()}) {
		t.Errorf("it names %v", e.Learned)
	}
}

// An exact measurement below the counted lines lowers what is certain, so that launch does not refuse what ran here before.
func TestCertainOfLearned(t *testing.T) {
	e := learn([]Receipt{took(16, host, data(180, mem.Exact))}, key("net", 16), host, today(host)).apply(priced(16, host), key("net", 16))
	if e.Certain() != 180*mib {
		t.Errorf("%v are certain of what took 180 MiB", e.Certain())
	}
}

func TestReceiptCheck(t *testing.T) {
	if err := took(16, host, data(1, mem.Exact)).check(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Receipt){
		"no version":              func(r *Receipt) { r.Version = 0 },
		"newer launch":            func(r *Receipt) { r.Version = 2 },
		"phase is missing":        func(r *Receipt) { r.Run = "" },
		"no measurement":          func(r *Receipt) { r.Measured = nil },
		"not a known kind":        func(r *Receipt) { r.Machine.Kind = "tpu" },
		"out of range":            func(r *Receipt) { r.Measured[0].Bytes = -1 },
		"known quantity":          func(r *Receipt) { r.Measured[0].Is = "felt" },
		"known bound":             func(r *Receipt) { r.Measured[0].Bound = "about" },
		"neither predicted lines": func(r *Receipt) { r.Predicted.Items = nil },
		"the line saved":          func(r *Receipt) { r.Predicted.Items[1].Bytes = -5 },
		"control characters":      func(r *Receipt) { r.Job.Arch = "\x1b[31m" },
		"is too long":             func(r *Receipt) { r.Job.Settings["micro-batch"] = strings.Repeat("9", 1000) },
	} {
		r := took(16, host, data(1, mem.Exact))
		change(&r)
		if err := r.check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %q", err, says)
		}
	}
}

// Each field that says whose measurement it is has to be there, and no amount may be out of range.
func TestReceiptHead(t *testing.T) {
	for name, change := range map[string]func(*Receipt){
		"attempt":        func(r *Receipt) { r.Attempt = 0 },
		"time":           func(r *Receipt) { r.Time = time.Time{} },
		"plugin":         func(r *Receipt) { r.Job.Plugin = "" },
		"phase":          func(r *Receipt) { r.Job.Phase = "" },
		"planned":        func(r *Receipt) { r.Planned = -1 },
		"planned, large": func(r *Receipt) { r.Planned = mostBytes + 1 },
		"reserved":       func(r *Receipt) { r.Predicted.Reserved = -1 },
		"total":          func(r *Receipt) { r.Machine.Total = mostBytes + 1 },
		"short":          func(r *Receipt) { r.Retries.Short = -1 },
		"retries":        func(r *Receipt) { r.Retries.Count = -1 },
		"rate":           func(r *Receipt) { r.Rate = -1 },
		"rate, large":    func(r *Receipt) { r.Rate = 2 * mostRate },
		"settings":       func(r *Receipt) { r.Job.Settings = manySettings(mostLines + 1) },
		"measurements":   func(r *Receipt) { r.Measured = slices.Repeat(r.Measured, mostLines+1) },
		"lines":          func(r *Receipt) { r.Predicted.Items = slices.Repeat(r.Predicted.Items, mostLines) },
		"allocations":    func(r *Receipt) { r.Predicted.Allocs = make([]mem.Alloc, 1) },
	} {
		r := took(16, host, data(1, mem.Exact))
		change(&r)
		if r.checkHead() == nil {
			t.Errorf("%s: the receipt is taken", name)
		}
	}
	r := took(16, host, data(1, mem.Exact))
	r.Planned, r.Machine.Total, r.Rate, r.Job.Settings = mostBytes, mostBytes, mostRate, manySettings(mostLines)
	if err := r.checkHead(); err != nil {
		t.Error(err)
	}
}

func manySettings(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint(i)] = "1"
	}
	return all
}

func TestNames(t *testing.T) {
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var rs []Receipt
	for n, want := range map[int]string{1: "run 0 of 2026-11-20", 2: "run 0 of 2026-11-20 and run 1 of 2026-11-20",
		5: "run 0 of 2026-11-20, run 1 of 2026-11-20 and 3 more"} {
		rs = nil
		for i := range n {
			r := Receipt{Run: fmt.Sprint(i), Time: at}
			rs = append(rs, r, r) // of two phases
		}
		if got := runNames(rs); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The driver's figure includes what the allocator only caches, and the phase does not need that.
func TestCachedIsNoNeed(t *testing.T) {
	for name, tt := range map[string]struct {
		total unit.Bytes // of the card
		seen  mem.Measurement
		want  unit.Bytes
	}{
		"200 MiB are cached beside what is needed":   {12 * unit.GiB, used(766, mem.Sampled), 566},
		"on a nearly full card it is unknown":        {800 * mib, used(766, mem.Sampled), 516},
		"where it failed nothing is cached any more": {12 * unit.GiB, used(766, mem.AtLeast), 766},
	} {
		on := card
		on.Total = tt.total
		caching := func(k ReceiptKey) (mem.Estimate, bool) {
			e, ok := today(on)(k)
			e.Reserved = 416 * mib // parameters, saved tensors and slack are 216
			return e, ok
		}
		of := key("net", 16)
		e, _ := caching(of)
		got := learn([]Receipt{took(16, on, tt.seen)}, of, on, caching).apply(e, of)
		if got.Total() != tt.want*mib {
			t.Errorf("%s: %v, want %d MiB: %+v", name, got.Total(), tt.want, got.Items)
		}
	}
}

// Imported receipts count for less: only if this machine has no receipt of the phase itself, never below the counted lines,
// and not if they are far from the price.
func TestImported(t *testing.T) {
	imported := func(m mem.Measurement) Receipt {
		return with(took(16, host, m), func(r *Receipt) { r.Imported = true })
	}
	for name, tt := range map[string]struct {
		receipts []Receipt
		want     unit.Bytes
	}{
		"believed where nothing else is known":    {[]Receipt{imported(data(370, mem.Exact))}, 370},
		"not beside what was seen here":           {[]Receipt{imported(data(370, mem.Exact)), took(16, host, data(500, mem.Exact))}, 500},
		"nor by their number":                     {[]Receipt{imported(data(370, mem.Exact)), imported(data(371, mem.Exact)), imported(data(372, mem.Exact)), took(16, host, data(500, mem.Exact))}, 500},
		"not below what is counted":               {[]Receipt{imported(data(180, mem.Exact))}, 200},
		"not a hundred terabytes":                 {[]Receipt{imported(data(100<<20, mem.Exact))}, 400},
		"not by a failure of that size":           {[]Receipt{imported(data(100<<20, mem.AtLeast))}, 400},
		"not next to nothing":                     {[]Receipt{imported(data(1, mem.Exact))}, 400},
		"the newest, where the program has grown": {[]Receipt{took(16, host, data(370, mem.Exact)), took(16, host, data(371, mem.Exact)), took(16, host, data(650, mem.Exact))}, 650},
		"but not a wild one that is older":        {[]Receipt{took(16, host, data(650, mem.Exact)), took(16, host, data(370, mem.Exact)), took(16, host, data(371, mem.Exact))}, 371},
	} {
		of := key("net", 16)
		if got := learn(tt.receipts, of, host, today(host)).apply(priced(16, host), of); got.Total() < tt.want*mib-mib/2 || got.Total() > tt.want*mib+mib/2 {
			t.Errorf("%s: %v, want %d MiB", name, got.Total(), tt.want)
		}
	}
}

// The memory of Python and torch on a CPU depends on project and interpreter: receipts of others, or without these, teach
// nothing about it.
func TestRuntimeIsOfOneProject(t *testing.T) {
	elsewhere := func(project, python string) []Receipt {
		var rs []Receipt
		for _, micro := range []int64{1, 2} {
			rs = append(rs, with(took(micro, host, data(340+10*unit.Bytes(micro), mem.Exact)), func(r *Receipt) { // 100 MiB more than priced
				r.Job.Arch, r.Job.Project, r.Job.Python = "other", project, python
			}))
		}
		return rs
	}
	of := key("net", 16)
	for name, tt := range map[string]struct {
		receipts []Receipt
		of       ReceiptKey
		learned  bool
	}{
		"of the same":            {elsewhere("w", "py"), of, true},
		"of another project":     {elsewhere("v", "py"), of, false},
		"of another interpreter": {elsewhere("w", "venv"), of, false},
		"of an unknown one":      {elsewhere("", ""), of, false},
		"for an unknown one": {elsewhere("", ""), ReceiptKey{Plugin: "p", Arch: "net", Phase: "training",
			Settings: of.Settings}, false},
	} {
		e := learn(tt.receipts, tt.of, host, today(host)).apply(priced(16, host), tt.of)
		if got := e.Total() != priced(16, host).Total(); got != tt.learned {
			t.Errorf("%s: %v of %v, learned: %v", name, e.Total(), priced(16, host).Total(), got)
		}
	}
	// A measurement of the same network with another interpreter does not count; one with an unknown interpreter does.
	venv := with(took(16, host, data(370, mem.Exact)), func(r *Receipt) { r.Job.Python = "venv" })
	before := with(took(16, host, data(370, mem.Exact)), func(r *Receipt) { r.Job.Project, r.Job.Python = "", "" })
	if e := learn([]Receipt{venv}, of, host, today(host)).apply(priced(16, host), of); e.Total() != 400*mib {
		t.Errorf("of another interpreter: %v", e.Total())
	}
	if e := learn([]Receipt{before}, of, host, today(host)).apply(priced(16, host), of); e.Total() != 370*mib {
		t.Errorf("of before interpreters were kept: %v", e.Total())
	}
}
