package unit

import "fmt"

// Clip is the first characters of a text, at most so many; of a longer one the last is an ellipsis.
func Clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// Times says how often something happened: "once", "3 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
