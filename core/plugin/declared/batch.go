package declared

import (
	"errors"
	"fmt"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
)

// division is how the global batch is divided in a command, and what launch can change of it.
type division struct {
	micro, accum, global *setting // nil: not declared
	batch                job.Batch
	// derived: the program derives the accumulation from the global batch (or, with no place for the micro-batch, the
	// micro-batch), so that one edit keeps the global batch.
	derived bool
	whole   int64 // samples of one rank in one optimizer step; 0 if unknown
	keeps   bool  // a smaller micro-batch keeps that
}

// divide finds out how the global batch is divided. The error may be a [plugin.Need] of the number of cards.
func (r *reading) divide() (err error) {
	for _, s := range []struct {
		at   *place
		into **setting
	}{{r.Micro, &r.micro}, {r.Accumulation, &r.accum}, {r.Global.at(), &r.global}} {
		if s.at == nil {
			continue
		}
		if *s.into, err = r.find(s.at); err != nil {
			return err
		}
	}
	ranks, replicas, err := r.world()
	if err != nil {
		return err
	}
	r.batch = job.Batch{Ranks: ranks, Replicas: replicas}
	micro, knowsMicro := r.share(r.micro, bool(r.Per.Micro))
	accum, knowsAccum := r.share(r.accum, bool(r.Per.Accumulation))
	global, err := r.samples()
	if err != nil {
		return err
	}
	if r.Accumulation == nil {
		accum, knowsAccum = 1, r.Global == nil
	}
	perRank := int64(0)
	if global%ranks == 0 {
		perRank = global / ranks
	}
	switch {
	case r.Micro != nil && r.Accumulation == nil && r.Global != nil:
		r.derived = true
		if knowsMicro && perRank > 0 && perRank%micro == 0 {
			accum, knowsAccum = perRank/micro, true
		}
	case r.Micro == nil:
		r.derived = true
		if knowsAccum && perRank > 0 && perRank%accum == 0 {
			micro, knowsMicro = perRank/accum, true
		}
	case knowsMicro && knowsAccum && global > 0 && micro*accum != perRank:
		r.warn("the global batch is %d = %d × %d × %d, and %s declares %d", micro*accum*ranks, micro, accum, ranks,
			r.origin, global)
	}
	if knowsMicro {
		r.batch.Micro = micro
	}
	if r.batch.Accumulation = accum; !knowsAccum {
		r.batch.Accumulation = 0
	}
	if knowsMicro && knowsAccum {
		r.whole = micro * accum
	}
	r.keeps = r.whole > 0 && (r.derived || r.accum != nil && r.accum.change != nil)
	return nil
}

// samples is the global batch that the command or the declaration sets; 0 if it is not known.
func (r *reading) samples() (int64, error) {
	global, known := r.Global.whole(), true
	if r.global != nil {
		global, known = r.global.count()
	}
	switch {
	case !known:
		return 0, nil
	case r.SampleTokens == nil:
		return global, nil
	}
	tokens, err := r.tokens()
	if err != nil || tokens <= 0 || global%tokens != 0 {
		return 0, err
	}
	return global / tokens, nil
}

// tokens is how many tokens a sample has, where the global batch counts tokens; 0 if unknown.
func (r *reading) tokens() (int64, error) {
	if r.SampleTokens.place == nil {
		return r.SampleTokens.whole(), nil
	}
	s, err := r.find(r.SampleTokens.place)
	if err != nil {
		return 0, err
	}
	n, _ := s.count()
	return n, nil
}

// share is a setting's part of one rank.
func (r *reading) share(s *setting, all bool) (int64, bool) {
	n, ok := s.count()
	if ranks := r.batch.Ranks; ok && all {
		return n / ranks, n%ranks == 0
	}
	return n, ok
}

// spread is the value of a setting of which one rank has n.
func (r *reading) spread(n int64, all bool) int64 {
	if all {
		return n * r.batch.Ranks
	}
	return n
}

// world is how many processes share a step: what the command's launcher starts, else by the declaration, else one.
// replicas: they are the cards of one process.
func (r *reading) world() (n int64, replicas bool, err error) {
	for _, l := range r.prog.Launchers {
		n, asks := l.Ranks(r.command.Devices)
		if asks && r.command.Devices == 0 {
			return 0, false, &plugin.Need{Devices: true}
		}
		if n > 0 {
			return int64(n), false, nil
		}
	}
	switch {
	case r.Ranks == nil:
		return 1, false, nil
	case r.Ranks.cards && r.command.Devices == 0:
		return 0, false, &plugin.Need{Devices: true}
	case r.Ranks.cards:
		return max(1, int64(r.command.Devices)), r.command.Devices > 1, nil
	case r.Ranks.place == nil:
		return max(1, r.Ranks.whole()), false, nil
	}
	s, err := r.find(r.Ranks.place)
	if err != nil {
		return 0, false, err
	}
	n, _ = s.count()
	return max(1, n), false, nil
}

// uncertain warns about what is not known of the batch, and what follows.
func (r *reading) uncertain() {
	if r.batch.Micro == 0 {
		s := r.micro
		if s == nil {
			s = r.accum
		}
		why := "is not set, and its default could not be read"
		if !s.byScript {
			why = fmt.Sprintf("is %q, which is no batch size", s.text)
		}
		if s.at.Doc == "" {
			why = "is in a file that the command does not name"
		}
		r.warn("%s %s, so the micro-batch is not known and stays as it is", nameOf(s.at), why)
		return
	}
	if r.micro != nil && r.micro.change == nil {
		r.warn("launch cannot change %s: %s", nameOf(r.micro.at), r.micro.fixed)
		return
	}
	a := r.accum
	switch {
	case a == nil && r.derived && r.whole == 0:
		r.warn("the global batch is not known, so a smaller micro-batch may change it")
	case a == nil || r.keeps:
	case !a.known && a.byScript:
		r.warn("%s is not set, and its default could not be read: it stays as it is, so a smaller micro-batch changes "+
			"the global batch; set it, and that stays the same", nameOf(a.at))
	case (!a.known || r.whole == 0) && (a.fixed == "" || a.fixed == isExpression):
		r.warn("%s is %q, which launch cannot divide: it stays as it is, so a smaller micro-batch changes the global batch",
			nameOf(a.at), a.text)
	default:
		r.warn("launch cannot change %s: %s; so a smaller micro-batch changes the global batch", nameOf(a.at), a.fixed)
	}
}

// nameOf is an address as a person knows it.
func nameOf(at config.Address) string {
	if at.Doc == config.ArgvDoc || at.Doc == "" {
		return at.Path
	}
	return at.String()
}

// splits lists the other micro-batches: all that divide the samples of a step where that stays the same, else halves.
func (r *reading) splits() (larger, smaller []ladder.Split) {
	if r.keeps {
		asked := ladder.Split{Micro: r.batch.Micro, Accumulation: r.batch.Accumulation}
		larger, smaller = asked.Others(func(ladder.Split) bool { return true })
		if len(larger)+len(smaller) > 0 {
			return larger, smaller
		}
	}
	for micro := r.batch.Micro / 2; micro >= 1; micro /= 2 {
		accumulation := r.batch.Accumulation
		if r.keeps { // of a global batch with too many divisors
			for r.whole%micro != 0 {
				micro--
			}
			accumulation = r.whole / micro
		}
		smaller = append(smaller, ladder.Split{Micro: micro, Accumulation: accumulation})
	}
	return nil, smaller
}

// splitting are the edits of a split.
func (r *reading) splitting(s ladder.Split, cost ladder.Cost) (edits []config.Edit, err error) {
	for _, part := range []struct {
		name string
		at   *setting
		to   int64
		from int64
	}{
		{job.Accumulation, r.accum, r.spread(s.Accumulation, bool(r.Per.Accumulation)), r.spread(r.batch.Accumulation,
			bool(r.Per.Accumulation))},
		{job.MicroBatch, r.micro, r.spread(s.Micro, bool(r.Per.Micro)), r.spread(r.batch.Micro, bool(r.Per.Micro))},
	} {
		if part.at == nil || part.to == part.from {
			continue
		}
		e, err := r.edit(part.name, part.at, scalar{any: part.to}, cost)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	for i := range r.Scaled {
		at, err := r.find(&r.Scaled[i])
		if err != nil {
			return nil, err
		}
		n, ok := at.count()
		if !ok || !at.set || s.Accumulation == r.batch.Accumulation { // unset, it follows the accumulation by itself
			continue
		}
		if n*s.Accumulation%r.batch.Accumulation != 0 {
			return nil, errUneven
		}
		e, err := r.edit(nameOf(at.at), at, scalar{any: n * s.Accumulation / r.batch.Accumulation}, cost)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// errUneven is the error of a split for which a setting would be no whole number. There is no such rung.
var errUneven = errors.New("a setting that grows with the accumulation would be no whole number")
