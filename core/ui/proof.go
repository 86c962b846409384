package ui

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// unproven describes the values of a row that its training is not known to have got; "" if there are none.
func unproven(r *sweep.Row) string {
	res := r.Result
	if res == nil || r.State != sweep.Succeeded || len(res.NotProven) == 0 {
		return ""
	}
	text := "not proven: " + strings.Join(res.NotProven, ", ")
	if res.Program == nil || res.Program.Shell {
		return text + ": launch did not see the process that trains"
	}
	return text + ": the process that trained did not get it: " + unit.Clip(Quote(res.Program.Args), 120)
}

// Proof writes which rows are not what their values say, as far as launch can tell, even where launch is to be quiet.
func (p Printer) Proof(h *sweep.History) {
	type group struct {
		keys string
		rows []int
		of   *sweep.Row
	}
	var groups []group
	for _, r := range h.Rows {
		if unproven(r) == "" {
			continue
		}
		keys := strings.Join(r.Result.NotProven, ", ")
		i := slices.IndexFunc(groups, func(g group) bool { return g.keys == keys })
		if i < 0 {
			groups, i = append(groups, group{keys: keys, of: r}), len(groups)
		}
		groups[i].rows = append(groups[i].rows, r.Number)
	}
	for _, g := range groups {
		p.line("%s not proven: %s: trial %s; the command may not pass it on: %s", isAre(len(g.rows)), OneLine(g.keys),
			list(g.rows), OneLine(unit.Clip(Quote(commandOf(h, g.of)), 120)))
		if pr := g.of.Result.Program; pr != nil && !pr.Shell {
			p.line("  what trained got: %s", OneLine(unit.Clip(Quote(pr.Args), 160)))
		} else {
			p.line("  launch did not see the process that trains")
		}
	}
	for trial, of := range twinsInOrder(h) {
		p.line("trial %d is a duplicate of trial %d: both trained with the same arguments and environment", trial, of)
	}
}

// twinsInOrder yields each trial that trained as an earlier one did, with that one.
func twinsInOrder(h *sweep.History) iter.Seq2[int, int] {
	twins := h.Twins()
	return func(yield func(trial, of int) bool) {
		for _, r := range h.Rows {
			if of, ok := twins[r.Number]; ok && !yield(r.Number, of) {
				return
			}
		}
	}
}

func isAre(n int) string {
	if n == 1 {
		return "1 row is"
	}
	return fmt.Sprintf("%d rows are", n)
}

// list names trials: "1, 2, 3 and 17 more".
func list(rows []int) string {
	const most = 8
	var parts []string
	for i, n := range rows {
		if i == most {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(rows)-most)
		}
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ", ")
}

func commandOf(h *sweep.History, r *sweep.Row) []string {
	if inv, err := h.Spec.Template().Render(r.Trial); err == nil {
		return inv.Args
	}
	return h.Spec.Command
}
