package draft

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/python"
)

// headers are the texts with which a function that prints a message is called, where they differ and the message shows
// something of its own before a piece: one line then tells of the training, and the next of the validation.
func (m *message) headers(before int) (texts []string) {
	function := m.f.function(m.statement)
	if function < 0 || !slices.ContainsFunc(m.pieces[:before], func(p piece) bool { return p.field != "" }) {
		return nil
	}
	def, ok := m.f.Definition(m.f.Statements[function])
	if !ok || def.Class {
		return nil
	}
	for _, s := range m.f.Statements {
		for _, c := range m.f.Calls(s.Range) {
			args := m.f.Args(c.Open)
			if c.Name[strings.LastIndexByte(c.Name, '.')+1:] != def.Name || len(args) == 0 {
				continue
			}
			for _, a := range args {
				text, is := python.Literal(m.f.Of(a.Range))
				if is && text != "" && !slices.Contains(texts, text) {
					texts = append(texts, text)
					break
				}
			}
		}
	}
	if len(texts) < 2 {
		return nil
	}
	return texts
}
