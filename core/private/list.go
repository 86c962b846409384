package private

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// An Entry is a file that the user has approved, with its content at that time.
type Approval struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// A List is the file in which approved settings files are recorded.
type Approvals string

// Approved returns the user's own list. It is "", and empty, if there is no folder for it.
func Approved() Approvals {
	if dir := ConfigDir(); dir != "" {
		return Approvals(filepath.Join(dir, "trusted.json"))
	}
	return ""
}

// ConfigDir is the folder of the user's settings for launch, by the XDG base directories; "" if there is none. A
// relative XDG_CONFIG_HOME is ignored.
func ConfigDir() string {
	if d := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "launch")
	}
	if d := os.Getenv("HOME"); filepath.IsAbs(d) && d != "/" {
		return filepath.Join(d, ".config", "launch")
	}
	return ""
}

// Entries returns what was approved. A list that others may have written approves nothing, and is an error.
func (l Approvals) Entries() ([]Approval, error) {
	if l == "" {
		return nil, nil
	}
	f, err := ReadSettings(string(l))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case f.Foreign != nil:
		return nil, fmt.Errorf("%s: %w", l, f.Foreign)
	}
	var entries []Approval
	if err := json.Unmarshal(f.Text, &entries); err != nil {
		return nil, fmt.Errorf("reading %s: %w", l, err)
	}
	return entries, nil
}

// Has reports whether the user has approved exactly this content at this path.
func (l Approvals) Has(f *Settings) bool {
	entries, _ := l.Entries()
	return slices.Contains(entries, Approval{f.Path, f.Sum()})
}

// Add records that the user approves a file with the content that was read.
func (l Approvals) Add(f *Settings) error {
	return l.change(func(entries []Approval) []Approval {
		return append(without(entries, f.Path), Approval{f.Path, f.Sum()})
	})
}

// Remove removes a path from the list. It returns an error if the list does not have it.
func (l Approvals) Remove(path string) error {
	return l.change(func(entries []Approval) []Approval {
		if !slices.ContainsFunc(entries, func(e Approval) bool { return e.Path == path }) {
			return nil
		}
		return append([]Approval{}, without(entries, path)...)
	})
}

func without(entries []Approval, path string) []Approval {
	return slices.DeleteFunc(entries, func(e Approval) bool { return e.Path == path })
}

// change replaces the entries by the result of f. If that is nil, the file is not on the list, which is an error.
func (l Approvals) change(f func([]Approval) []Approval) error {
	if l == "" {
		return errors.New("no home folder for the list of trusted files")
	}
	entries, err := l.Entries()
	if err != nil {
		return err
	}
	if entries = f(entries); entries == nil {
		return errors.New("it is not a trusted file; `launch trust --list` lists those")
	}
	slices.SortFunc(entries, func(a, b Approval) int { return strings.Compare(a.Path, b.Path) })
	text, err := json.MarshalIndent(entries, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(string(l)), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(string(l), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the list of trusted files: %w", err)
	}
	return nil
}
