package advice

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// An account is a report that is explained.
type account struct{ oom.Report }

// barWidth is the width of the bar, in columns.
const barWidth = 50

// Explain describes a report to a person, in lines of plain text: the cause, the numbers as a bar, which code asked for the
// memory, and the evidence. [Remedies] lists what would have helped.
func Explain(of oom.Report) []string {
	r := account{of}
	if !r.OOM && !r.Possible && !r.Fatal {
		return []string{"nothing in this text shows that a program failed"}
	}
	out := append([]string{r.Cause}, r.drawCard()...)
	out = append(out, "")
	say := func(label, text string) { out = append(out, fmt.Sprintf("  %-9s %s", label, text)) }
	switch {
	case r.Frame == "":
	case r.OfCard() || r.Kind == oom.CPUAlloc:
		say("asked by", r.Frame)
	default:
		say("at", r.Frame)
	}
	if r.Rank != nil {
		say("rank", fmt.Sprint(*r.Rank))
	}
	for i, h := range r.HeldBy {
		if i == maxHolders {
			say("", fmt.Sprintf("and %d more", len(r.HeldBy)-i))
			break
		}
		say([]string{"held by", ""}[min(i, 1)], h.String())
	}
	if r.Kind == oom.GPUContention && len(r.HeldBy) == 0 {
		for i, p := range r.Others[:min(maxHolders, len(r.Others))] {
			say([]string{"held by", ""}[min(i, 1)], fmt.Sprintf("process %d with %v", p.PID, p.Bytes)+r.mayBeOurs(i))
		}
	}
	for i, e := range r.Evidence {
		say([]string{"seen", ""}[min(i, 1)], r.witnessed(e))
	}
	switch {
	case r.Confidence == oom.Likely && (r.OOM || r.NotMemory != "exception"):
		say("sure?", "likely: these words usually mean this, but not always")
	case r.Possible:
		say("sure?", "weak: only the kernel's log (journalctl -k, dmesg) or the scheduler's shows who killed it")
	}
	if r.Survived > 0 && r.Fatal {
		say("before", fmt.Sprintf("it ran out of memory %s and went on", unit.Times(r.Survived)))
	}
	return out
}

// mayBeOurs is put after the last process of a message that does not show which of them is the program itself.
func (r account) mayBeOurs(i int) string {
	if r.ProcessInUse != nil || i < min(maxHolders, len(r.Others))-1 {
		return ""
	}
	return " (one of them may be this program)"
}

// rounding is the largest error of a sum of a message's amounts: up to six, each in GiB with two decimals.
const rounding = 64 * unit.MiB

// maxHolders bounds how many other processes on a card are listed.
const maxHolders = 4

// witnesses are the sources of evidence as they are printed.
var witnesses = map[oom.Source]string{oom.Output: "output", oom.Status: "its exit", oom.Kernel: "the kernel",
	oom.OnCard: "the card",
	oom.OnHost: "host memory", oom.Witness: "inside the program"}

// witnessed prints one piece of evidence: its source, its line, and its text.
func (r account) witnessed(e oom.Evidence) string {
	who := witnesses[e.From]
	if who == "" { // a record of an older launch has no source
		who = witnesses[oom.Output]
	}
	if e.Stream != "" && e.Stream != oom.Terminal {
		who = e.Stream
	}
	if e.Number > 0 {
		who += fmt.Sprintf(", line %d", e.Number)
	}
	if r.OOM && e.From != oom.Output && e.For == oom.NoMemory {
		who += ", against it"
	}
	return fmt.Sprintf("%s: %s", who, unit.Clip(e.Text, 120))
}

// held is what other processes hold of the card: as the driver lists them, or what the message's numbers leave over.
func (r account) held() (sum unit.Bytes) {
	for _, h := range r.HeldBy {
		sum += h.Bytes
	}
	return max(sum, r.OtherHeld())
}

// FitsAlone reports, for contention, whether the request that failed would have succeeded on a card without the other
// processes. Later requests might still have failed. known is false where the numbers are not stated.
func FitsAlone(of oom.Report) (fits, known bool) {
	r := account{of}
	if r.Kind != oom.GPUContention || r.Requested == nil || r.Free == nil {
		return false, false
	}
	return *r.Requested <= *r.Free+r.held(), true
}

// drawCard draws what the card held; below it stand the request and the limit. A message without the card's capacity
// but with a limit (MPS) is drawn against the limit.
func (r account) drawCard() []string {
	total, name := unit.Value(r.Capacity), ""
	if total == 0 && r.Allocated != nil {
		total, name = unit.Value(r.Allowed), " allowed"
	}
	if total <= 0 {
		return nil
	}
	bar, legend := draw(r.shares(total), total)
	out := []string{"", fmt.Sprintf("  [%s] %v%s", bar, total, name)}
	if len(legend) > 0 {
		out = append(out, "   "+strings.Join(legend, "   "))
	}
	if r.Requested != nil {
		out = append(out, "   "+r.requestLine())
	}
	if r.Allowed != nil && r.Capacity != nil {
		out = append(out, fmt.Sprintf("   of all this, the process may take at most %v", *r.Allowed))
	}
	return out
}

// A share is a part of the bar.
type share struct {
	mark  string
	bytes unit.Bytes
	about string // "about " where the message does not state how the rest is split
	what  string
}

// shares splits the whole: allocated, reserved beyond that, what this process holds outside PyTorch, others, free.
func (r account) shares(total unit.Bytes) []share {
	allocated := min(unit.Value(r.Allocated), total)
	slack := min(max(0, unit.Value(r.Reserved)-allocated), total-allocated)
	free := min(unit.Value(r.Free), total-allocated-slack)
	rest := total - allocated - slack - free
	outside, others := share{mark: "~", what: "this process, outside PyTorch"}, share{mark: "o", bytes: rest, what: "others"}
	switch {
	case r.Capacity == nil:
		others.what = "not allocated by PyTorch"
	case r.ProcessInUse != nil && *r.ProcessInUse <= total:
		outside.bytes = min(max(0, *r.ProcessInUse-allocated-slack), rest)
		if others.bytes = rest - outside.bytes; others.bytes < rounding {
			outside.bytes, others.bytes = rest, 0
		}
	case r.Kind == oom.GPUContention && r.Allocated != nil:
		others.bytes = min(r.held(), rest)
		outside.bytes = rest - others.bytes
		outside.about = "about "
		if outside.bytes > 0 {
			others.about = "about "
		}
	case r.Free == nil:
		others.what = "not told: free, of others, or of this process outside PyTorch"
	default:
		others.what = "others, and this process outside PyTorch"
	}
	return []share{
		{mark: "#", bytes: allocated, what: "allocated"},
		{mark: "+", bytes: slack, what: "reserved, not allocated"},
		outside,
		others,
		{mark: ".", bytes: free, what: "free"},
	}
}

// draw returns the bar and its legend, which leaves out shares below 1 MiB.
func draw(shares []share, total unit.Bytes) (bar string, legend []string) {
	drawn, sum := 0, unit.Bytes(0)
	for _, s := range shares {
		sum += s.bytes
		end := int(float64(sum)/float64(total)*barWidth + 0.5)
		bar += strings.Repeat(s.mark, max(0, end-drawn))
		drawn = max(drawn, end)
		if s.bytes >= unit.MiB {
			legend = append(legend, fmt.Sprintf("%s %s%v %s", s.mark, s.about, s.bytes, s.what))
		}
	}
	return bar, legend
}

// requestLine compares the request that failed with what was free.
func (r account) requestLine() string {
	if r.InAll() {
		return fmt.Sprintf("it needs %v in all", *r.Requested)
	}
	text := fmt.Sprintf("it asked for %v more", *r.Requested)
	if r.Free != nil && *r.Requested > *r.Free {
		text += fmt.Sprintf(", %v beyond what was free", *r.Requested-*r.Free)
	}
	fits, known := FitsAlone(r.Report)
	switch {
	case known && fits:
		text += "; without the others it would have been met"
	case known:
		text += "; without the others it would not have been met either"
	}
	return text
}
