package mem

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// step is a training step of a stack of convolutions, as a plugin would price it.
func step(batch int64) (e Tensors) {
	t := nn.NewTape()
	t.Part("net", func() {
		x := t.Hold(t.Input(nn.F32, batch, 3, 128, 128))
		for _, name := range []string{"a", "b", "c", "d"} {
			x = t.GELU(t.Conv2d(name, x, nn.Conv{Out: 64, K: 3, Pad: 1}))
		}
		t.Backward(t.Mean(x))
	})
	size := t.Size("net")
	t.OptimizerStep("net", size.GradBytes)
	e.Add(Item{Kind: Parameters, What: "net", Bytes: size.ParamBytes}, Item{Kind: Optimizer, What: "net", Bytes: 2 * size.GradBytes},
		Item{Kind: Parameters, What: "ema", Bytes: size.ParamBytes})
	e.AddPeak(t.Peak(), "images")
	e.Add(Item{Kind: Buffers, What: "queue", Bytes: 7 * unit.MiB}, Item{Kind: Workspace, What: "cuDNN", Bytes: unit.GiB})
	return e
}

// Slack is what is reserved beyond the tensors; a library's workspace is none of them.
func TestSlack(t *testing.T) {
	e := step(4)
	live := e.Total() - unit.GiB
	var replayed Allocator
	if u, ok := replayed.Replay(e); !ok || u.Allocated < live || u.Allocated > live+live/50 {
		t.Errorf("%v in use at the fullest, the tensors are %v", u.Allocated, live)
	}
	segments, most := e.slack(Caching{})
	pages, mostPages := e.slack(Caching{Expandable: true})
	if segments.Guess || segments.Bytes <= 0 || segments.Bytes > live/4 {
		t.Errorf("slack is %+v of %v", segments, live)
	}
	if pages.Bytes > segments.Bytes {
		t.Errorf("expandable segments need more slack, %v, than others, %v", pages.Bytes, segments.Bytes)
	}
	for expandable, slack := range map[bool]unit.Bytes{false: segments.Bytes, true: pages.Bytes} {
		free := most
		if expandable {
			free = mostPages
		}
		if free < live+slack {
			t.Errorf("with room for it %v are reserved, fewer than the %v needed", free, live+slack)
		}
		a := Allocator{Caching: Caching{Expandable: expandable}, Limit: live + slack}
		if u, _ := a.Replay(e); u.Reserved > a.Limit+a.Limit/50 {
			t.Errorf("a room of %v is said to do, and takes %v (expandable %v)", a.Limit, u.Reserved, expandable)
		}
	}
	if guess, reserved := (Tensors{Estimate: Estimate{Items: e.Items}}).slack(Caching{}); !guess.Guess || reserved != 0 {
		t.Errorf("where no request is known slack is a guess, not %+v", guess)
	}
	if guess, _ := (Tensors{Estimate: Estimate{Items: e.Items, Unknown: "no formula"}, requests: e.requests}).slack(Caching{}); !guess.Guess {
		t.Errorf("where the estimate is unknown slack is a guess, not %+v", guess)
	}
}

// A validation comes when the optimizer's states are there: they are kept from its beginning.
func TestValidationHoldsStates(t *testing.T) {
	var e Tensors
	tape := nn.NewTape()
	tape.NoGrad(func() {
		tape.Part("net", func() {
			tape.Conv2d("a", tape.Hold(tape.Input(nn.F32, 1, 3, 256, 256)), nn.Conv{Out: 64, K: 3, Pad: 1})
		})
	})
	e.Add(Item{Kind: Parameters, What: "net", Bytes: tape.Size("net").ParamBytes}, Item{Kind: Optimizer, What: "net", Bytes: 2 * tape.Size("net").ParamBytes})
	e.Add(Item{Kind: Optimizer, What: "net", Bytes: 300 * unit.MiB})
	e.AddPeak(tape.Peak(), "an image")
	var a Allocator
	if u, ok := a.Replay(e); !ok || u.Allocated < e.Total() {
		t.Errorf("%v in use at the fullest, the lines are %v", u.Allocated, e.Total())
	}
}

// The same estimate at several sizes, replayed between two, is each of them by itself, slack and all.
func TestReplayedBatches(t *testing.T) {
	batches := []int64{16, 1, 3, 8, 3}
	es := AtBatches(step, batches...)
	for i := range es { // each is added to by itself
		es[i].Add(Item{Kind: Slack, Bytes: unit.Bytes(i + 1)})
	}
	for i, e := range es {
		if n := len(e.Items) - 1; e.Items[n].Bytes != unit.Bytes(i+1) {
			t.Errorf("estimate %d ends in what was added to another: %+v", i, e.Items[n])
		} else {
			e.Items = e.Items[:n:n]
		}
		device := gpu.Device{Name: "some card", Total: 8 * unit.GiB}
		e, want := e.OnCard(device, Caching{}), step(batches[i]).OnCard(device, Caching{})
		for k := range want.Items {
			if e.Items[k] != want.Items[k] {
				t.Errorf("at %d line %d is %+v, by itself %+v", batches[i], k, e.Items[k], want.Items[k])
			}
		}
		if len(e.Items) != len(want.Items) || len(e.Allocs) != len(want.Allocs) {
			t.Errorf("at %d: %d lines and %d requests, by itself %d and %d", batches[i], len(e.Items), len(e.Allocs), len(want.Items), len(want.Allocs))
		}
	}
}

// The estimates that are made of the same tensors share no line.
func TestOnCardLeavesTheTensors(t *testing.T) {
	e := step(4)
	e.Items = slices.Grow(e.Items, 16)
	lines, device := len(e.Items), gpu.Device{Name: "some card", Total: 8 * unit.GiB}
	plain := e.OnCard(device, Caching{})
	before := slices.Clone(plain.Items)
	if e.OnCard(device, Caching{Expandable: true}); !slices.Equal(plain.Items, before) || len(e.Items) != lines {
		t.Errorf("one estimate changed another: %+v, before %+v", plain.Items[lines:], before[lines:])
	}
}

// Lines are split into the tensors that they are made of: an optimizer's come with its first step.
func TestKept(t *testing.T) {
	e := step(1)
	k := newKeeper(e.requests.peak.Trace.Parts)
	for what, c := range map[string]struct {
		it    Item
		n     int
		later bool
	}{
		"parameters":       {e.Items[0], 8, false},
		"optimizer states": {e.Items[1], 16, true},
		"a copy":           {e.Items[2], 8, false},
		"a queue, by chance a multiple of the parameters": {Item{Kind: Buffers, What: "queue", Bytes: 1000 * e.Items[0].Bytes}, 1, false},
		"a queue": {Item{Kind: Buffers, What: "queue", Bytes: 7 * unit.MiB}, 1, false},
	} {
		line, part := k.kept(c.it)
		sum := unit.Bytes(0)
		for _, n := range line.tensors {
			sum += n * unit.Bytes(line.times)
		}
		if line.number() != c.n || sum != c.it.Bytes || part >= 0 != c.later {
			t.Errorf("%s: %d tensors of %v in all (part %d), want %d of %v", what, line.number(), sum, part, c.n, c.it.Bytes)
		}
	}
}

// The tight room is gone on with from where it begins to matter. That is what it comes to from the beginning.
func TestSlackFromTheBeginning(t *testing.T) {
	gone := 0
	for batch := range int64(12) {
		for _, expandable := range []bool{false, true} {
			e := step(batch + 1)
			live := e.live()
			for _, coarse := range []bool{false, true} {
				free, tight := Allocator{Caching: Caching{Expandable: expandable}, Coarse: coarse}, Allocator{Caching: Caching{Expandable: expandable}, Coarse: coarse, Limit: live}
				most, _ := free.Replay(e)
				least, _ := tight.Replay(e)
				need, reserved := e.sequence().need(live, Caching{Expandable: expandable}, coarse)
				want := most.Reserved
				if most.Reserved-live > live/100 {
					want = min(want, least.Reserved)
					gone++
				}
				if need != want || reserved != most.Reserved {
					t.Errorf("batch %d, expandable %v, coarse %v: %v of %v, from the beginning %v of %v", batch+1, expandable, coarse, need, reserved, want, most.Reserved)
				}
			}
		}
	}
	if gone < 10 {
		t.Errorf("only %d of them needed a second look", gone)
	}
}

// What sequences begin with is asked for once. What they come to is the same as each by itself, in whatever order.
func TestSlackOnTheSameFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	model := func(n int) (out []unit.Bytes) {
		for range n {
			out = append(out, unit.Bytes(1+rng.IntN(1<<(8+rng.IntN(16)))))
		}
		return out
	}
	once := func(tensors []unit.Bytes) copied {
		c := newCopied(tensors)
		c.times = 1
		return c
	}
	models := [][]unit.Bytes{model(300), model(300), model(40), nil}
	models[3] = slices.Clone(models[0])
	slices.Reverse(models[3])
	type question struct {
		sequence
		Caching
		coarse bool
		limit  unit.Bytes
	}
	var questions []question
	q, base := question{}, []copied{once(models[0])}
	for range 600 {
		switch q.steps, q.limit = 1, unit.Bytes(rng.IntN(400))*unit.MiB; rng.IntN(7) {
		case 0:
			q.Expandable = !q.Expandable
		case 3:
			q.MaxSplit = 21*unit.MiB - q.MaxSplit
		case 1:
			q.coarse = !q.coarse
		case 2:
			base = nil
			for k := range 1 + rng.IntN(2) {
				base = append(base, once(models[rng.IntN(4)]))
				base[k].times += rng.IntN(2)
			}
		}
		queue := unit.Bytes(rng.IntN(64)) * unit.MiB
		q.kept = append(slices.Clone(base), once([]unit.Bytes{queue + 1}), once(models[rng.IntN(4)]))
		q.Sizes, q.Events = append([]unit.Bytes{0}, model(20)...), nil
		for b := range int32(100) {
			q.Events = append(q.Events, nn.Event{Block: b + 1, Size: int32(1 + rng.IntN(20))})
			if b%3 == 2 {
				q.Events = append(q.Events, nn.Event{Block: b}, nn.Event{Block: b - 1})
			}
		}
		questions = append(questions, q)
	}
	stood, p := 0, &play{Allocator: &Allocator{}}
	for i, q := range questions {
		alone := &play{Allocator: &Allocator{}}
		for _, p := range []*play{p, alone} {
			p.with(q.Caching, q.coarse, q.limit)
			if p.floor.asked(q.kept, p.Allocator) > 0 {
				stood++
			}
			p.begin(q.sequence)
			p.end()
		}
		if p.usage != alone.usage || p.now != alone.now {
			t.Errorf("%d: %+v, by itself %+v", i, p.usage, alone.usage)
		}
	}
	if stood < 20 {
		t.Errorf("only %d of them stood on another's floor", stood)
	}
	for range 2 {
		var a, empty Allocator
		a.Ask(64 * unit.MiB)
		got, _ := a.Replay(step(1))
		want, _ := empty.Replay(step(1))
		if want.Reserved += 64 * unit.MiB; got.Reserved != want.Reserved {
			t.Errorf("beside what is there: %v, want %v", got.Reserved, want.Reserved)
		}
	}
}

// A line names what cuDNN copies, and is no guess on the architecture whose card has shown it alone.
func TestCopiesOnCards(t *testing.T) {
	tape := nn.NewTape()
	tape.Card = true
	tape.NoGrad(func() {
		tape.Part("net", func() {
			x := tape.Hold(tape.Images(false, nn.F16, 1, 64, 480, 640))
			tape.Hold(tape.ConvWeight(x, tape.Images(false, nn.F16, 64, 64, 3, 3), nn.Tensor{}, nn.Conv{Out: 64, K: 3}))
		})
	})
	var e Tensors
	e.AddPeak(tape.Peak(), "images")
	for capability, guess := range map[string]bool{"8.9": false, "8.6": true, "": true} {
		from := "copies as NHWC of the input (37.5 MiB) and the result (37.5 MiB), " +
			"at the peak, net: torch.nn.functional.conv2d"
		if guess {
			from += "; as on an RTX 4090"
		}
		want := Item{Kind: Workspace, What: nn.CuDNN, Bytes: 75*unit.MiB + 64*64*9*2, Guess: guess, From: from}
		card := e.OnCard(gpu.Device{Kind: gpu.CUDA, Capability: capability}, Caching{})
		if !slices.Contains(card.Items, want) {
			t.Errorf("on a card of %q: %+v has no %+v", capability, card.Items, want)
		}
	}
	if i := slices.IndexFunc(e.Items, func(it Item) bool { return it.Guess }); i >= 0 {
		t.Errorf("the tensors have the guess of a card: %+v", e.Items[i])
	}
}
