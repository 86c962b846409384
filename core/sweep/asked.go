package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ParseOnly reads "KEY:CONDITION".
func ParseOnly(text string) (Only, error) {
	at := strings.LastIndex(strings.SplitN(text, "=", 2)[0], ":") // "env:A:b=1" is the key env:A
	if at <= 0 {
		return Only{}, fmt.Errorf("%q is not KEY:CONDITION", text)
	}
	return Only{strings.TrimSpace(text[:at]), Condition(strings.TrimSpace(text[at+1:]))}, nil
}

// CheckFlags returns an error if the file sets a flag that trials cannot be given.
func (a Asked) CheckFlags(may func(name string) bool) error {
	for _, f := range a.Flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "--"), "=")
		if !may(name) {
			return fmt.Errorf("flags: launch has no flag --%s for a trial", name)
		}
	}
	return nil
}

// Check returns an error if what is asked contradicts itself.
func (a Asked) Check() error {
	switch {
	case a.Jobs < 0:
		return errors.New("--jobs is at least 1")
	case a.Space.Random < 0:
		return errors.New("--random is at least 1")
	case a.SamePlan && a.Search != nil && len(a.Search.Ask) > 0:
		return errors.New("--same-plan prices all rows before any runs: a searcher program has none yet")
	case len(a.Command) == 0 && len(a.Space.Dimensions)+len(a.Space.Seeds) > 0:
		return errors.New("keys need a command: put it after --")
	}
	if err := CheckName(a.Name); err != nil {
		return err
	}
	return errors.Join(a.Space.Check(), a.Search.check(a.Space, a.Command))
}

// Trials lists the trials. Without a command each is a command of its own, which rows reads.
func (a Asked) Trials(rows func() ([]Trial, error)) ([]Trial, error) {
	if len(a.Command) == 0 {
		return rows()
	}
	if a.Search != nil && len(a.Search.Ask) > 0 { // its program lists them
		return nil, nil
	}
	if a.Search != nil {
		s, err := NewHalving(*a.Search, a.Space)
		if err != nil {
			return nil, err
		}
		first, _ := s.Next(&History{})
		return first, nil
	}
	all, err := a.Space.Assignments()
	if err != nil {
		return nil, err
	}
	return Template{Sweep: a.Name}.Number(1, all), nil
}

// Spec returns the sweep as it is recorded, and the template of its trials. masked is the command without its secrets.
func (a Asked) Spec(masked []string) (Spec, Template, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Spec{}, Template{}, fmt.Errorf("finding the current folder: %w", err)
	}
	s := Spec{Name: a.Name, Command: masked, Dir: dir, Flags: a.Flags, Space: a.Space, Jobs: a.Jobs, Search: a.Search}
	t := s.Template()
	t.Command = a.Command
	return s, t, nil
}

// Template is the template of the sweep's trials. Its command lacks secrets.
func (s Spec) Template() Template {
	return Template{Sweep: s.Name, Command: s.Command, Dir: cmp.Or(s.Snapshot, s.Dir), Shared: s.Shared}
}

// Listing is the searcher of a recorded sweep, unless a program chooses its trials. The journal has all trials of a
// list, unless the process was killed before it had written them.
func Listing(h *History) (Searcher, error) {
	if len(h.Spec.Command) == 0 && !h.Done {
		return nil, fmt.Errorf("the commands of sweep %s were never recorded: start another one", h.Spec.Name)
	}
	if h.Done {
		return Rows(nil), nil
	}
	if s := h.Spec.Search; s != nil {
		return NewHalving(*s, h.Spec.Space)
	}
	all, err := h.Spec.Space.Assignments()
	return Rows(h.Spec.Template().Number(1, all)), err
}
