package ui

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A RunFilter selects runs. Its zero value selects all.
type RunFilter struct {
	Name  string    // a part of the run's name, its experiment or its command, in any case
	Since time.Time // runs that began then or later
}

// Has reports whether the filter selects a run.
func (f RunFilter) Has(r RunRow) bool {
	all := strings.ToLower(strings.Join(append([]string{r.ID, r.Name, r.Arch, r.Plugin}, r.Command...), " "))
	return strings.Contains(all, strings.ToLower(f.Name)) && !r.Began.Before(f.Since)
}

// ParseSince reads a time: a date (2026-11-22), a date with a time (2026-11-22 14:30), or how long before now (90m, 24h, 7d).
func ParseSince(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 7d, 12h, or a date such as 2026-11-22", text)
}

// Title is what a list calls a run: its experiment, or its command where that has no name of its own. A name that is
// only the script's is followed by the script's arguments: they tell its runs apart.
func (r RunRow) Title() string {
	if r.Name == "" {
		return strings.Join(r.Command, " ")
	}
	for i, arg := range r.Command {
		if filepath.Base(arg) == r.Name {
			return strings.Join(append([]string{r.Name}, r.Command[i+1:]...), " ")
		}
	}
	return r.Name
}
