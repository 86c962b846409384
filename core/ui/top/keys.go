package top

import (
	"slices"
	"unicode"
)

// mostFilter bounds the text of a filter.
const mostFilter = 100

// Key acts on a key, as bubbletea names it; text is what it types. quit: the user wants to leave.
func (s *Screen) Key(key, text string) (quit bool) {
	if key == "ctrl+c" {
		return true
	}
	if s.typing {
		s.typed(key, text)
		s.choose()
		return false
	}
	switch key {
	case "q":
		return true
	case "esc":
		if s.view == overview {
			s.filter = ""
		}
		s.view = overview
	case "enter":
		if s.view == overview && s.run() != nil {
			s.view = details
		}
	case "o":
		s.toggle(processes)
	case "?", "h":
		s.toggle(help)
	case "/":
		s.view, s.typing = overview, true
	case "s":
		s.sort, s.reversed = sorts[(slices.Index(sorts, s.sort)+1)%len(sorts)], false
	case "r":
		s.reversed = !s.reversed
	case "space":
		s.paused = !s.paused
	default:
		s.steer(key)
	}
	s.choose()
	return false
}

// toggle shows a view, or leaves it.
func (s *Screen) toggle(v view) {
	if s.view == v {
		v = overview
	}
	s.view = v
}

// steer moves the selection.
func (s *Screen) steer(key string) {
	switch key {
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup":
		s.move(-max(1, s.shown))
	case "pgdown":
		s.move(max(1, s.shown))
	case "home", "g":
		s.move(-len(s.rows))
	case "end", "G":
		s.move(len(s.rows))
	}
}

// typed changes the filter.
func (s *Screen) typed(key, text string) {
	switch key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "backspace":
		if r := []rune(s.filter); len(r) > 0 {
			s.filter = string(r[:len(r)-1])
		}
	case "ctrl+u":
		s.filter = ""
	default:
		for _, r := range text {
			if unicode.IsPrint(r) && len(s.filter) < mostFilter {
				s.filter += string(r)
			}
		}
	}
}

// Click acts on a click at a column and a line, both from 0: a run is selected, and opened by a second click; the name
// of a column sorts by it, and by a second click the other way round.
func (s *Screen) Click(x, y int) {
	if s.view != overview || s.typing {
		return
	}
	switch row := y - s.runsAt; {
	case y == s.headAt && s.headAt >= 0:
		col := s.columns.at(x)
		switch {
		case col == nil || col.less == nil:
		case col == s.sort:
			s.reversed = !s.reversed
		default:
			s.sort, s.reversed = col, false
		}
	case row >= 0 && row < s.shown:
		id := s.snapshot.Runs[s.rows[s.first+row]].ID
		if id == s.selected {
			s.view = details
		}
		s.selected = id
	}
	s.choose()
}

// Wheel moves the selection.
func (s *Screen) Wheel(down bool) {
	if s.view != overview {
		return
	}
	if down {
		s.move(1)
	} else {
		s.move(-1)
	}
}
