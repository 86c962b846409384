// Package lazy has regular expressions that are compiled when they are first used. A run uses a few of the hundreds there
// are. Compiling all of them was 3.8 of the 8.6 ms of CPU time that "launch version" took (2 cores, 2026-11-22), paid again by
// its plugin's process.
package lazy

import (
	"regexp"
	"sync"
)

// A Regexp is a [regexp.Regexp] that is compiled when it is first used. It may be used from several goroutines.
type Regexp struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
}

// MustCompile is regexp.MustCompile, which panics at the first use. The test of this package compiles all of them.
func MustCompile(source string) *Regexp { return &Regexp{source: source} }

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.source) })
	return r.re
}

// String is the source.
func (r *Regexp) String() string { return r.source }

func (r *Regexp) Match(b []byte) bool                  { return r.get().Match(b) }
func (r *Regexp) MatchString(s string) bool            { return r.get().MatchString(s) }
func (r *Regexp) FindString(s string) string           { return r.get().FindString(s) }
func (r *Regexp) FindIndex(b []byte) []int             { return r.get().FindIndex(b) }
func (r *Regexp) FindStringIndex(s string) []int       { return r.get().FindStringIndex(s) }
func (r *Regexp) FindSubmatch(b []byte) [][]byte       { return r.get().FindSubmatch(b) }
func (r *Regexp) FindSubmatchIndex(b []byte) []int     { return r.get().FindSubmatchIndex(b) }
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.get().FindStringSubmatchIndex(s)
}
func (r *Regexp) FindAll(b []byte, n int) [][]byte           { return r.get().FindAll(b, n) }
func (r *Regexp) FindAllString(s string, n int) []string     { return r.get().FindAllString(s, n) }
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int { return r.get().FindAllStringIndex(s, n) }
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte { return r.get().FindAllSubmatch(b, n) }
func (r *Regexp) FindAllSubmatchIndex(b []byte, n int) [][]int {
	return r.get().FindAllSubmatchIndex(b, n)
}
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(s, n)
}
func (r *Regexp) ReplaceAll(b, with []byte) []byte       { return r.get().ReplaceAll(b, with) }
func (r *Regexp) ReplaceAllString(s, with string) string { return r.get().ReplaceAllString(s, with) }
func (r *Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, f)
}
