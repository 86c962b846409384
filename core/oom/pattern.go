package oom

import (
	"regexp"
	"sync"
)

// A pattern is a regular expression that is compiled when it is first used. There are a hundred of them, most programs
// fail never, and launch has ten milliseconds to start.
type pattern struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
}

func rx(source string) *pattern { return &pattern{source: source} }

func (p *pattern) get() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.source) })
	return p.re
}

func (p *pattern) MatchString(s string) bool              { return p.get().MatchString(s) }
func (p *pattern) FindIndex(b []byte) []int               { return p.get().FindIndex(b) }
func (p *pattern) FindStringIndex(s string) []int         { return p.get().FindStringIndex(s) }
func (p *pattern) FindStringSubmatch(s string) []string   { return p.get().FindStringSubmatch(s) }
func (p *pattern) FindStringSubmatchIndex(s string) []int { return p.get().FindStringSubmatchIndex(s) }
func (p *pattern) ReplaceAllString(s, with string) string { return p.get().ReplaceAllString(s, with) }

func (p *pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.get().FindAllStringSubmatch(s, n)
}
