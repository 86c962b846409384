package private

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// orderOf is the file beside a folder that lists the names of its entries in the order in which they were made, one a
// line.
func orderOf(dir string) string { return filepath.Clean(dir) + ".order" }

// longestOrder bounds what is read of the list, in bytes: its end.
const longestOrder = 4 << 20

// NoteMade appends a name to the list of a folder. Names that are not in the list count as older than those that are.
func NoteMade(dir, name string) error {
	if err := Check(dir); err != nil { // nothing is made where another account has put something
		return err
	}
	f, err := Open(orderOf(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("\n" + name + "\n") // the line before may have been torn
	return err
}

// InOrder sorts names, which are sorted already by what else is known of their age, by the list of the folder. A clock
// that was wrong when one of them was made does not matter.
func InOrder(dir string, names []string) {
	f, err := Open(orderOf(dir), os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > longestOrder {
		f.Seek(-longestOrder, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(f, longestOrder))
	if err != nil {
		return
	}
	place, n := make(map[string]int, len(names)), 0
	for line := range bytes.Lines(text) {
		n++
		place[string(bytes.TrimSpace(line))] = n
	}
	slices.SortStableFunc(names, func(a, b string) int { return place[a] - place[b] })
}
