package mem

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

var (
	host = Machine{Kind: "cpu", Torch: "2.9", Allocator: "MALLOC_ARENA_MAX=1"}
	card = Machine{Kind: "cuda", Card: "RTX 3060", Total: 12 * unit.GiB, Capability: "8.6", Driver: "550.1", Torch: "2.9+cu128"}
)

const mib = unit.MiB

// priced is an estimate that grows by 10 MiB a sample, as a plugin would price it for a machine.
func priced(micro int64, on Machine) Estimate {
	var e Estimate
	e.Add(Item{Kind: Parameters, Bytes: 40 * mib}, Item{Kind: Saved, Bytes: unit.Bytes(micro) * 10 * mib})
	if on.Kind == "cpu" {
		e.Add(Item{Kind: Runtime, Bytes: 200 * mib, Guess: true})
	} else {
		e.Add(Item{Kind: Slack, Bytes: unit.Bytes(micro) * mib, Guess: true}, Item{Kind: Context, Bytes: 300 * mib, Guess: true})
	}
	return e
}

func key(arch string, micro int64) Key {
	return Key{Plugin: "p", Arch: arch, Phase: "training", Program: "x", Project: "w", Python: "py", Settings: map[string]string{"micro-batch": strconv.FormatInt(micro, 10), "crop": "64"}}
}

var clock = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// took is a receipt of net at a micro-batch, a minute newer than the one made before it.
func took(micro int64, on Machine, ms ...Measurement) Receipt {
	clock = clock.Add(time.Minute)
	return Receipt{Version: 1, Run: fmt.Sprintf("run-%d", clock.Unix()), Attempt: 1, Time: clock, Job: key("net", micro), Machine: on,
		Predicted: priced(micro, on), Measured: ms, Ending: "succeeded"}
}

func data(b unit.Bytes, bound Bound) Measurement {
	return Measurement{Is: Data, Bytes: b * mib, Bound: bound}
}
func live(b unit.Bytes, bound Bound) Measurement {
	return Measurement{Is: Allocated, Bytes: b * mib, Bound: bound}
}
func used(b unit.Bytes, bound Bound) Measurement {
	return Measurement{Is: Used, Bytes: b * mib, Bound: bound}
}

func with(r Receipt, change func(*Receipt)) Receipt {
	change(&r)
	return r
}

// today prices what the rungs of a ladder have: micro-batches up to 64.
func today(on Machine) func(Key) (Estimate, bool) {
	return func(k Key) (Estimate, bool) {
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
		"the measurement itself, less":   {host, []Receipt{took(16, host, data(370, Exact))}, 16, 370, 370, false},
		"the measurement itself, more":   {host, []Receipt{took(16, host, data(500, Exact))}, 16, 500, 500, false},
		"what was sampled counts too":    {host, []Receipt{took(16, host, data(370, Sampled))}, 16, 370, 370, false},
		"but not below counted lines":    {host, []Receipt{took(16, host, data(90, Sampled))}, 16, 200, 200, false},
		"a counter may":                  {host, []Receipt{took(16, host, data(180, Exact))}, 16, 180, 180, false},
		"half the size: mostly constant": {host, []Receipt{took(32, host, data(520, Exact))}, 16, 360, 362, true},
		"twice the size":                 {host, []Receipt{took(16, host, data(370, Exact))}, 32, 529, 530, true},
		"between two, straight":          {host, []Receipt{took(8, host, data(300, Exact)), took(24, host, data(500, Exact))}, 16, 400, 400, false},
		"beyond two, on their slope":     {host, []Receipt{took(8, host, data(320, Exact)), took(24, host, data(512, Exact))}, 32, 600, 615, false},
		"of several at a size the median": {host, []Receipt{took(16, host, data(370, Exact)), took(16, host, data(9000, Exact)),
			took(16, host, data(372, Exact))}, 16, 372, 372, false},
		"the newest five of a size": {host, append([]Receipt{took(16, host, data(900, Exact)), took(16, host, data(900, Exact)), took(16, host, data(900, Exact)), took(16, host, data(900, Exact)), took(16, host, data(900, Exact)), took(16, host, data(900, Exact))},
			took(16, host, data(370, Exact)), took(16, host, data(370, Exact)), took(16, host, data(370, Exact)), took(16, host, data(370, Exact)), took(16, host, data(370, Exact))), 16, 370, 370, false},
		"it failed there":                     {host, []Receipt{took(16, host, data(450, AtLeast))}, 16, 450, 450, false},
		"it failed with less than is priced":  {host, []Receipt{took(16, host, data(300, AtLeast))}, 16, 400, 400, true},
		"it failed, and passed later":         {host, []Receipt{took(16, host, data(450, AtLeast)), took(16, host, data(410, Exact))}, 16, 410, 410, false},
		"it passed, and failed later":         {host, []Receipt{took(16, host, data(410, Exact)), took(16, host, data(450, AtLeast))}, 16, 450, 450, false},
		"a failure that others explain":       {host, []Receipt{took(8, host, data(500, Exact)), took(24, host, data(700, Exact)), took(16, host, data(450, AtLeast))}, 16, 600, 600, false},
		"at most says nothing":                {host, []Receipt{took(16, host, data(370, AtMost))}, 16, 400, 400, true},
		"resident is another quantity":        {host, []Receipt{took(16, host, Measurement{Is: Resident, Bytes: 250 * mib})}, 16, 400, 400, true},
		"of another torch":                    {host, []Receipt{with(took(16, host, data(370, Exact)), func(r *Receipt) { r.Machine.Torch = "1.13" })}, 16, 400, 400, true},
		"of another heap":                     {host, []Receipt{with(took(16, host, data(370, Exact)), func(r *Receipt) { r.Machine.Allocator = "" })}, 16, 400, 400, true},
		"another architecture: the runtime":   {host, []Receipt{with(took(1, host, data(210, Exact)), func(r *Receipt) { r.Job = key("other", 1) })}, 16, 359, 361, false},
		"another phase: the runtime":          {host, []Receipt{with(took(1, host, data(210, Exact)), func(r *Receipt) { r.Job.Phase = "validation" })}, 16, 359, 361, false},
		"wildly less of another: a quarter":   {host, []Receipt{with(took(1, host, data(1, Exact)), func(r *Receipt) { r.Job = key("other", 1) })}, 16, 250, 250, false},
		"a large one tells the runtime badly": {host, []Receipt{with(took(400, host, data(4200, Exact)), func(r *Receipt) { r.Job = key("other", 400) })}, 16, 390, 400, false},
		"the formula has changed": {host, []Receipt{with(took(16, host, data(370, Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 })},
			16, 370, 370, false},
		"and what is priced no more is left": {host, []Receipt{with(took(8, host, data(320, Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 }),
			with(took(100, host, data(900, Exact)), func(r *Receipt) { r.Predicted.Items[1].Bytes *= 2 })}, 16, 400, 401, false},

		"a card: what the driver saw":           {card, []Receipt{took(16, card, used(700, Sampled))}, 16, 700, 700, false},
		"the print and the driver":              {card, []Receipt{took(16, card, live(210, Exact), used(640, Sampled))}, 16, 640, 640, false},
		"the print alone: the rest as it was":   {card, []Receipt{took(16, card, live(220, Exact))}, 16, 220 + 316, 220 + 316, true},
		"of another card: live tensors":         {card, []Receipt{with(took(16, card, live(220, Exact), used(900, Sampled)), func(r *Receipt) { r.Machine.Card = "H100" })}, 16, 536, 536, true},
		"of another driver on this card":        {card, []Receipt{with(took(16, card, live(220, Exact), used(640, Sampled)), func(r *Receipt) { r.Machine.Driver = "1" })}, 16, 640, 640, false},
		"of this driver, which counts more":     {card, []Receipt{took(16, card, used(640, Sampled)), with(took(16, card, used(900, Sampled)), func(r *Receipt) { r.Machine.Driver = "1" })}, 16, 640, 640, false},
		"taken over from an earlier phase":      {card, []Receipt{took(16, card, used(640, AtMost))}, 16, 516, 516, true},
		"another job on this card: the context": {card, []Receipt{with(took(16, card, live(200, Exact), used(450, Sampled)), func(r *Receipt) { r.Job = key("other", 16) })}, 16, 449, 453, true},
		"a message tells the context": {card, []Receipt{with(took(16, card, live(500, AtLeast), used(700, AtLeast), Measurement{Is: Reserved, Bytes: 550 * mib, Bound: AtLeast}),
			func(r *Receipt) { r.Job = key("other", 16) })}, 16, 366, 366, true},
	} {
		of := key("net", tt.micro)
		e := priced(tt.micro, tt.on)
		got := Learn(tt.receipts, of, tt.on, today(tt.on)).Apply(e, of)
		if total := got.Total(); total < tt.least*mib-mib/2 || total > tt.most*mib+mib/2 {
			t.Errorf("%s: %v, want %d to %d MiB: %+v", name, total, tt.least, tt.most, got.Items)
		}
		if guess := slices.ContainsFunc(got.Items, func(it Item) bool { return it.Guess }); guess != tt.guess {
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

// Whatever receipts say, the total falls with the price all the way down: a ladder stays a ladder.
func TestLearnedLadderFalls(t *testing.T) {
	for name, rs := range map[string][]Receipt{
		"less for more":       {took(8, host, data(600, Exact)), took(16, host, data(300, Exact))},
		"zigzag":              {took(2, host, data(500, Exact)), took(4, host, data(250, Exact)), took(8, host, data(700, Exact)), took(16, host, data(260, Exact)), took(32, host, data(261, Exact))},
		"nothing at the top":  {took(64, host, data(1, Exact))},
		"wild at the bottom":  {took(1, host, data(90000, Exact))},
		"failed at the least": {took(1, host, data(5000, AtLeast)), took(64, host, data(800, Exact))},
	} {
		for _, on := range []Machine{host, card} {
			for i := range rs {
				rs[i].Machine, rs[i].Predicted = on, priced(number1(rs[i]), on)
				if m := rs[i].Measured[0]; on.Kind == "cuda" {
					rs[i].Measured = []Measurement{{Is: Used, Bytes: m.Bytes, Bound: m.Bound}, {Is: Allocated, Bytes: m.Bytes * 9 / 10, Bound: m.Bound}}
				}
			}
			l := Learn(rs, key("net", 16), on, today(on))
			above := unit.Bytes(math.MaxInt64)
			for n := int64(64); n >= 1; n-- {
				total := l.Apply(priced(n, on), key("net", n)).Total()
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
	unknown := func(micro int64, m Measurement, change ...func(*Receipt)) Receipt {
		r := took(micro, host, m)
		r.Predicted = Estimate{Unknown: "no formula"}
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
	part := Estimate{Unknown: "no formula", Items: []Item{{Kind: Parameters, Bytes: 100 * mib}}}
	for name, tt := range map[string]struct {
		e        Estimate
		receipts []Receipt
		micro    int64
		want     unit.Bytes // MiB; 0: still unknown
		guess    bool
	}{
		"nothing":                         {part, nil, 8, 0, false},
		"these settings":                  {part, []Receipt{unknown(8, data(500, Sampled))}, 8, 500, false},
		"split otherwise":                 {part, []Receipt{unknown(8, data(500, Sampled), accumulated)}, 8, 500, false},
		"in proportion, above what is":    {part, []Receipt{unknown(8, data(500, Sampled))}, 4, 300, true},
		"in proportion, nothing counted":  {Estimate{Unknown: "no formula"}, []Receipt{unknown(8, data(500, Sampled))}, 16, 1000, true},
		"a line":                          {part, []Receipt{unknown(4, data(300, Exact)), unknown(8, data(500, Exact))}, 6, 400, false},
		"a line, far":                     {part, []Receipt{unknown(4, data(300, Exact)), unknown(8, data(500, Exact))}, 32, 1700, true},
		"another program":                 {part, []Receipt{unknown(8, data(500, Exact), other)}, 8, 0, false},
		"another setting":                 {part, []Receipt{unknown(8, data(500, Exact), crop)}, 8, 0, false},
		"it failed elsewhere":             {part, []Receipt{unknown(8, data(500, AtLeast))}, 4, 0, false},
		"it failed above the line's word": {part, []Receipt{unknown(4, data(300, Exact)), unknown(8, data(900, AtLeast))}, 8, 900, false},
	} {
		of := key("net", tt.micro)
		got := Learn(tt.receipts, of, host, func(Key) (Estimate, bool) { return Estimate{Unknown: "no formula"}, true }).Apply(tt.e, of)
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

// Where the same ran out of memory and nothing else is known, how much it needs is not known either.
func TestLearnAtLeast(t *testing.T) {
	e := Estimate{Items: []Item{{Kind: Buffers, What: "queue", Bytes: 100 * mib}}, Unknown: "no formula"}
	r := took(8, host, data(500, AtLeast))
	r.Predicted = e
	got := Learn([]Receipt{r}, key("net", 8), host, func(Key) (Estimate, bool) { return e, true }).Apply(e, key("net", 8))
	if got.Known() || got.Least() != 500*mib || len(got.Learned) == 0 || !strings.Contains(got.Unknown, "ran out of memory") {
		t.Errorf("%+v", got)
	}
	if l := e.Least(); l != 100*mib {
		t.Errorf("before it failed %v, want what is counted", l)
	}
}

func TestLearnSaysFromWhere(t *testing.T) {
	r := took(16, host, data(370, Exact))
	e := Learn([]Receipt{r}, key("net", 16), host, today(host)).Apply(priced(16, host), key("net", 16))
	for _, it := range e.Items {
		if (it.Kind == Runtime || it.Kind == Correction) && !strings.Contains(it.From, "run "+r.Run+" of 2026-11-01") {
			t.Errorf("the line %s is from %q", it.Kind, it.From)
		}
	}
	if !slices.Equal(e.Learned, []string{r.ID()}) {
		t.Errorf("it names %v", e.Learned)
	}
}

// A measurement below the counted lines is believed where it was counted: what ran here is not refused.
func TestCertainOfLearned(t *testing.T) {
	e := Learn([]Receipt{took(16, host, data(180, Exact))}, key("net", 16), host, today(host)).Apply(priced(16, host), key("net", 16))
	if e.Certain() != 180*mib {
		t.Errorf("%v are certain of what took 180 MiB", e.Certain())
	}
}

func TestReceiptCheck(t *testing.T) {
	if err := took(16, host, data(1, Exact)).Check(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Receipt){
		"no version":         func(r *Receipt) { r.Version = 0 },
		"newer launch":       func(r *Receipt) { r.Version = 2 },
		"does not say":       func(r *Receipt) { r.Run = "" },
		"nothing was":        func(r *Receipt) { r.Measured = nil },
		"no kind of machine": func(r *Receipt) { r.Machine.Kind = "tpu" },
		"out of range":       func(r *Receipt) { r.Measured[0].Bytes = -1 },
		"no quantity":        func(r *Receipt) { r.Measured[0].Is = "felt" },
		"no bound":           func(r *Receipt) { r.Measured[0].Bound = "about" },
		"neither lines":      func(r *Receipt) { r.Predicted.Items = nil },
		"the line saved":     func(r *Receipt) { r.Predicted.Items[1].Bytes = -5 },
		"control characters": func(r *Receipt) { r.Job.Arch = "\x1b[31m" },
		"is longer than":     func(r *Receipt) { r.Job.Settings["micro-batch"] = strings.Repeat("9", 1000) },
	} {
		r := took(16, host, data(1, Exact))
		change(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %q", err, says)
		}
	}
}

// What the allocator merely caches, where there is room, is seen by the driver and is no need of the phase.
func TestCachedIsNoNeed(t *testing.T) {
	for name, tt := range map[string]struct {
		total unit.Bytes // of the card
		seen  Measurement
		want  unit.Bytes
	}{
		"200 MiB are cached beside what is needed":   {12 * unit.GiB, used(766, Sampled), 566},
		"near the card's end nobody knows how many":  {800 * mib, used(766, Sampled), 516},
		"where it failed nothing is cached any more": {12 * unit.GiB, used(766, AtLeast), 766},
	} {
		on := card
		on.Total = tt.total
		caching := func(k Key) (Estimate, bool) {
			e, ok := today(on)(k)
			e.Reserved = 416 * mib // parameters, saved tensors and slack are 216
			return e, ok
		}
		of := key("net", 16)
		e, _ := caching(of)
		got := Learn([]Receipt{took(16, on, tt.seen)}, of, on, caching).Apply(e, of)
		if got.Total() != tt.want*mib {
			t.Errorf("%s: %v, want %d MiB: %+v", name, got.Total(), tt.want, got.Items)
		}
	}
}

// A stranger's receipts count for less: nothing where this machine has seen the phase itself, never below counted lines,
// and nothing where they are far from any price.
func TestImported(t *testing.T) {
	imported := func(m Measurement) Receipt { return with(took(16, host, m), func(r *Receipt) { r.Imported = true }) }
	for name, tt := range map[string]struct {
		receipts []Receipt
		want     unit.Bytes
	}{
		"believed where nothing else is known":    {[]Receipt{imported(data(370, Exact))}, 370},
		"not beside what was seen here":           {[]Receipt{imported(data(370, Exact)), took(16, host, data(500, Exact))}, 500},
		"nor by their number":                     {[]Receipt{imported(data(370, Exact)), imported(data(371, Exact)), imported(data(372, Exact)), took(16, host, data(500, Exact))}, 500},
		"not below what is counted":               {[]Receipt{imported(data(180, Exact))}, 200},
		"not a hundred terabytes":                 {[]Receipt{imported(data(100<<20, Exact))}, 400},
		"not by a failure of that size":           {[]Receipt{imported(data(100<<20, AtLeast))}, 400},
		"not next to nothing":                     {[]Receipt{imported(data(1, Exact))}, 400},
		"the newest, where the program has grown": {[]Receipt{took(16, host, data(370, Exact)), took(16, host, data(371, Exact)), took(16, host, data(650, Exact))}, 650},
		"but not a wild one that is older":        {[]Receipt{took(16, host, data(650, Exact)), took(16, host, data(370, Exact)), took(16, host, data(371, Exact))}, 371},
	} {
		of := key("net", 16)
		if got := Learn(tt.receipts, of, host, today(host)).Apply(priced(16, host), of); got.Total() < tt.want*mib-mib/2 || got.Total() > tt.want*mib+mib/2 {
			t.Errorf("%s: %v, want %d MiB", name, got.Total(), tt.want)
		}
	}
}

// What Python and torch take on a CPU is a project's and an interpreter's: others teach nothing of it, nor do receipts that
// do not say whose they are.
func TestRuntimeIsOfOneProject(t *testing.T) {
	elsewhere := func(project, python string) []Receipt {
		var rs []Receipt
		for _, micro := range []int64{1, 2} {
			rs = append(rs, with(took(micro, host, data(340+10*unit.Bytes(micro), Exact)), func(r *Receipt) { // 100 MiB more than priced
				r.Job.Arch, r.Job.Project, r.Job.Python = "other", project, python
			}))
		}
		return rs
	}
	of := key("net", 16)
	for name, tt := range map[string]struct {
		receipts []Receipt
		of       Key
		learned  bool
	}{
		"of the same":            {elsewhere("w", "py"), of, true},
		"of another project":     {elsewhere("v", "py"), of, false},
		"of another interpreter": {elsewhere("w", "venv"), of, false},
		"of nobody knows which":  {elsewhere("", ""), of, false},
		"to nobody knows which":  {elsewhere("", ""), Key{Plugin: "p", Arch: "net", Phase: "training", Settings: of.Settings}, false},
	} {
		e := Learn(tt.receipts, tt.of, host, today(host)).Apply(priced(16, host), tt.of)
		if got := e.Total() != priced(16, host).Total(); got != tt.learned {
			t.Errorf("%s: %v of %v, learned: %v", name, e.Total(), priced(16, host).Total(), got)
		}
	}
	// The same network measured with another interpreter is another measurement; where that is not known it counts as ever.
	venv := with(took(16, host, data(370, Exact)), func(r *Receipt) { r.Job.Python = "venv" })
	before := with(took(16, host, data(370, Exact)), func(r *Receipt) { r.Job.Project, r.Job.Python = "", "" })
	if e := Learn([]Receipt{venv}, of, host, today(host)).Apply(priced(16, host), of); e.Total() != 400*mib {
		t.Errorf("of another interpreter: %v", e.Total())
	}
	if e := Learn([]Receipt{before}, of, host, today(host)).Apply(priced(16, host), of); e.Total() != 370*mib {
		t.Errorf("of before interpreters were kept: %v", e.Total())
	}
}
