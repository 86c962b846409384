// Package packtest simulates a sweep on mixed cards: its trials, other people's processes, a model of how much trials
// slow each other down, and what package pack decides.
package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/unit"
)

// A Kind is a training whose memory and length were measured.
type Kind struct {
	Name    string
	Count   int // of the mix
	Memory  unit.Bytes
	Minutes float64
}

// CARMA is the mix of 90 trainings that CARMA (arXiv 2508.19073) was evaluated on, with the memory and the time that
// each took alone on an A100 with 40 GB: the tables of README.md and the list philly_mix-90-tasks.sh of its
// repository, itu-rad/CARMA at e044017. One of the 90 (mnist_train) has no time there and is left out. The six
// that ran on two cards (xlnet, gpt2) count as trials on one card.
var CARMA = []Kind{
	{"BERT_base 32", 1, 19830 * unit.MiB, 14.92},
	{"BERT_large 8", 1, 12630 * unit.MiB, 44.93},
	{"inception 32", 1, 5230 * unit.MiB, 58.75},
	{"inception 64", 4, 9340 * unit.MiB, 51.27},
	{"Xception 32", 5, 5920 * unit.MiB, 49.86},
	{"Xception 64", 1, 11200 * unit.MiB, 48.82},
	{"Xception 128", 1, 21240 * unit.MiB, 47.57},
	{"efficientnet_b0 32", 2, 3750 * unit.MiB, 41.96},
	{"efficientnet_b0 64", 1, 6700 * unit.MiB, 28.48},
	{"efficientnet_b0 128", 1, 12670 * unit.MiB, 27.52},
	{"CIFAR efficientnet_b0 64, 20 epochs", 3, 720 * unit.MiB, 20 * 1.09},
	{"CIFAR efficientnet_b0 32, 50 epochs", 1, 670 * unit.MiB, 50 * 1.06},
	{"CIFAR efficientnet_b0 64, 50 epochs", 2, 720 * unit.MiB, 50 * 1.09},
	{"gpt2_large 8", 2, 28360 * unit.MiB, 65.72},
	{"CIFAR mobilenet 32, 20 epochs", 3, 590 * unit.MiB, 20 * 0.95},
	{"CIFAR mobilenet 64, 20 epochs", 4, 600 * unit.MiB, 20 * 0.50},
	{"CIFAR mobilenet 128, 20 epochs", 2, 640 * unit.MiB, 20 * 0.31},
	{"CIFAR mobilenet 32, 50 epochs", 3, 590 * unit.MiB, 50 * 0.95},
	{"CIFAR mobilenet 128, 50 epochs", 3, 640 * unit.MiB, 50 * 0.31},
	{"resnet50 32", 1, 3940 * unit.MiB, 34.96},
	{"resnet50 64", 1, 7110 * unit.MiB, 32.58},
	{"resnet50 128", 2, 13240 * unit.MiB, 31.27},
	{"CIFAR resnet18 32, 20 epochs", 4, 790 * unit.MiB, 20 * 0.49},
	{"CIFAR resnet18 64, 20 epochs", 4, 800 * unit.MiB, 20 * 0.23},
	{"CIFAR resnet18 128, 20 epochs", 5, 860 * unit.MiB, 20 * 0.17},
	{"CIFAR resnet18 32, 50 epochs", 2, 790 * unit.MiB, 50 * 0.49},
	{"CIFAR resnet18 64, 50 epochs", 2, 800 * unit.MiB, 50 * 0.23},
	{"CIFAR resnet18 128, 50 epochs", 5, 860 * unit.MiB, 50 * 0.17},
	{"CIFAR resnet34 32, 20 epochs", 6, 1010 * unit.MiB, 20 * 0.83},
	{"CIFAR resnet34 64, 20 epochs", 3, 1020 * unit.MiB, 20 * 0.44},
	{"CIFAR resnet34 128, 20 epochs", 2, 2080 * unit.MiB, 20 * 0.22},
	{"CIFAR resnet34 64, 50 epochs", 1, 1020 * unit.MiB, 50 * 0.44},
	{"vgg16 32", 3, 6690 * unit.MiB, 50.77},
	{"vgg16 64", 3, 11770 * unit.MiB, 46.70},
	{"xlnet_base 8", 2, 9200 * unit.MiB, 8 * 7.38},
	{"xlnet_large 4", 2, 19330 * unit.MiB, 3 * 19.58},
}

// A Job is a trial and the truth about it.
type Job struct {
	pack.Trial
	Peak unit.Bytes
	Time time.Duration // alone on a card
	At   time.Duration // when it joins the sweep
}

// Doubts says how far the trials' estimates may be trusted.
type Doubts struct {
	Wrong   float64 // share of estimates that are no upper bound: half of them too low, half too high
	By      float64 // a wrong one's peak is 1+By times its estimate, or 1/(1+By)² of it
	Unknown float64 // share of trials without an estimate
	NoTime  float64 // share of trials without a known length
	Unsaved float64 // share of trials that cannot save
}

// Trials draws n trials from a mix; n = 0 takes each as often as it is in the mix. A trial's memory is its kind's
// within 5 %, its time within 20 %. An estimate is 1/0.80 to 1/0.98 of the peak, a predicted length 0.8 to 1.25 of
// the time.
func Trials(mix []Kind, n int, d Doubts, seed uint64) []Job {
	rng := rand.New(rand.NewPCG(seed, 17))
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	var each []Kind
	for _, k := range mix {
		for range k.Count {
			each = append(each, k)
		}
	}
	exact := n == 0
	if exact {
		n = len(each)
	}
	jobs := make([]Job, n)
	for i := range jobs {
		k := each[i%len(each)]
		if !exact {
			k = each[rng.IntN(len(each))]
		}
		peak := float64(k.Memory) * between(0.95, 1.05)
		took := k.Minutes * float64(time.Minute) * between(0.8, 1.2)
		need := peak / between(0.80, 0.98)
		if wrong := rng.Float64(); wrong < d.Wrong/2 {
			need = peak / (1 + d.By)
		} else if wrong < d.Wrong {
			need = peak * (1 + d.By) * (1 + d.By)
		}
		j := Job{
			Trial: pack.Trial{ID: i, Need: unit.Bytes(need), Certain: d.Wrong == 0, Saves: rng.Float64() >= d.Unsaved},
			Peak:  unit.Bytes(peak), Time: time.Duration(took),
		}
		j.Length = time.Duration(took * between(0.8, 1.25))
		if rng.Float64() < d.Unknown {
			j.Need, j.Certain = 0, false
		}
		if rng.Float64() < d.NoTime {
			j.Length = 0
		}
		jobs[i] = j
	}
	return jobs
}

// Mixed are six cards of five sizes, DGX four cards of one: the station on which CARMA was evaluated.
var (
	Mixed = Cards(11, 12, 24, 24, 40, 80)
	DGX   = Cards(40, 40, 40, 40)
)

// Cards are cards with so many GiB.
func Cards(gib ...int) (out []pack.Card) {
	for i, g := range gib {
		out = append(out, pack.Card{ID: string(rune('A' + i)), Total: unit.Bytes(g) * unit.GiB})
	}
	return out
}

// An Other is somebody else's process. It comes if the card has as much free as it will need, holds 70 % of that at
// once and all of it after two minutes.
type Other struct {
	Card  string
	At    time.Duration
	Stays time.Duration
	Use   unit.Bytes
}

// Others draws n processes of other people during the time until end: 5 % to 40 % of a card for 5 to 60 minutes.
func Others(cards []pack.Card, n int, end time.Duration, seed uint64) []Other {
	rng := rand.New(rand.NewPCG(seed, 18))
	out := make([]Other, n)
	for i := range out {
		c := cards[rng.IntN(len(cards))]
		out[i] = Other{
			Card: c.ID, At: time.Duration(rng.Float64() * float64(end)),
			Stays: time.Duration((5 + 55*rng.Float64()) * float64(time.Minute)),
			Use:   unit.Bytes((0.05 + 0.35*rng.Float64()) * float64(c.Total)),
		}
	}
	return out
}

// A Model is the speed of each of k processes that train on one card, as a share of its speed alone, where s is the
// slowdown of two.
type Model func(s float64, k int) float64

// Geometric is the model that package pack decides by: each further one makes everybody's steps s times as long.
func Geometric(s float64, k int) float64 { return pack.Speed(s, k) }

// Linear slows everybody down by the same amount for each further one.
func Linear(s float64, k int) float64 { return 1 / (1 + float64(k-1)*(s-1)) }

// Full is a card that two keep busy: further ones share what it gets done.
func Full(s float64, k int) float64 {
	if k < 2 {
		return 1
	}
	return 2 / (s * float64(k))
}
