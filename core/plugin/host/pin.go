package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// A pin is one file as it was pinned: its checksum, or where it leads if it is a link.
type pin struct {
	Path   string `json:"path"` // below the plugin's folder
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// A ChangedPlugin is the error for a plugin whose files are not those that were pinned.
type ChangedPlugin struct {
	Plugin InstalledPlugin
	File   string // the first
	How    string // "has changed", "was added", "was removed"
	More   int    // how many files beside it
}

func (c *ChangedPlugin) Error() string {
	more := ""
	if c.More > 0 {
		more = fmt.Sprintf(" (and %d more)", c.More)
	}
	what := "you trusted it"
	if c.Plugin.Folder != "" {
		what = "it was installed"
	}
	return fmt.Sprintf("plugin %s is not run: %s %s%s since %s; if the change is yours, run `launch plugins trust %s`; "+
		"`launch plugins remove %s` removes it", c.Plugin.Name(), c.File, c.How, more, what, c.Plugin.Name(), c.Plugin.Name())
}

// most bounds a plugin: an environment with PyTorch in it has some 30,000 files and 6 GiB.
const (
	mostFiles = 200_000
	mostBytes = 20 << 30
)

// A found is a file of a plugin as it lies there.
type found struct {
	rel, path string
	link      string // where it leads, if it is a link
	info      fs.FileInfo
}

// A look is what lies at a plugin's place, by its names, sizes and times.
type look struct {
	files []found
	// stamp differs once a file has changed. No account but root can set the time of a file's last change (ctime).
	stamp string
	// fresh says that a file changed so recently that a later change might leave the same stamp.
	fresh bool
}

// settled is how old a file's last change has to be for its time to tell it from a later one: file systems count in
// steps, the coarsest in two seconds (FAT). Tests set it.
var settled = 3 * time.Second

// look lists the plugin's files. It fails where others can write one of them.
func (p InstalledPlugin) look() (look, error) {
	now := time.Now()
	var l look
	if p.Folder == "" {
		info, err := os.Stat(p.Path)
		if err != nil {
			return l, err
		}
		l.files = []found{{filepath.Base(p.Path), p.Path, "", info}}
	} else {
		var err error
		if l.files, err = scan(p.Folder); err != nil {
			return l, err
		}
	}
	sum, newest := sha256.New(), time.Time{}
	for _, f := range l.files {
		st, ok := f.info.Sys().(*syscall.Stat_t)
		if !ok {
			return l, fmt.Errorf("%s: its owner cannot be read", f.path)
		}
		if f.link != "" { // of a Python environment: the interpreter
			if err := private.CheckOpen(f.path); err != nil {
				return l, fmt.Errorf("the link %s: %w", f.path, err)
			}
		}
		changed := time.Unix(st.Ctim.Unix())
		if changed.After(newest) {
			newest = changed
		}
		fmt.Fprintf(sum, "%q %q %d %d %d %d %d\n", f.rel, f.link, st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino, st.Dev)
	}
	l.stamp, l.fresh = hexSum(sum), newest.After(now.Add(-settled))
	return l, nil
}

// scan lists the files and links below a folder, in the order of their paths.
func scan(dir string) (files []found, err error) {
	var size int64
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		f := found{rel: rel, path: path, info: info}
		switch kind := info.Mode().Type(); {
		case kind == fs.ModeSymlink:
			if f.link, err = os.Readlink(path); err != nil {
				return err
			}
		case kind == 0 || kind == fs.ModeDir:
			if err := private.CheckInfo(path, info); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is no file, no folder and no link", path)
		}
		if !d.IsDir() {
			files = append(files, f)
			size += info.Size()
		}
		if len(files) > mostFiles || size > mostBytes {
			return fmt.Errorf("%s has more than %d files or %d GiB", dir, mostFiles, mostBytes>>30)
		}
		return nil
	})
	return files, err
}

// pins reads the files, and returns their checksums.
func (l look) pins(ctx context.Context) ([]pin, error) {
	out, errs := make([]pin, len(l.files)), make([]error, len(l.files))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(l.files)) {
		workers.Go(func() {
			for i := range next {
				f := l.files[i]
				out[i] = pin{Path: f.rel, Link: f.link}
				if f.link == "" {
					out[i].SHA256, errs[i] = sum(ctx, f.path)
				}
			}
		})
	}
	for i := range l.files {
		next <- i
	}
	close(next)
	workers.Wait()
	return out, errors.Join(errs...)
}

// sum is the SHA-256 of a file.
func sum(ctx context.Context, path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would hang
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if _, err := io.CopyN(h, f, 16<<20); err == io.EOF {
			return hexSum(h), nil
		} else if err != nil {
			return "", err
		}
	}
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// pinned returns the files as they were pinned.
func (p InstalledPlugin) pinned() ([]pin, error) {
	if p.Folder == "" {
		return []pin{{Path: filepath.Base(p.Path), SHA256: p.SHA256}}, nil
	}
	b, err := private.ReadFile(p.list())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ChangedPlugin{p, p.list(), "was removed", 0}
	}
	if err != nil {
		return nil, err
	}
	if sumOf(b) != p.SHA256 {
		return nil, &ChangedPlugin{p, p.list(), "has changed", 0}
	}
	var pins []pin
	return pins, json.Unmarshal(b, &pins)
}

// keep pins the plugin's files.
func (p *InstalledPlugin) keep(pins []pin) error {
	if p.Folder == "" {
		p.SHA256 = pins[0].SHA256
		return nil
	}
	b, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	p.SHA256 = sumOf(b)
	return private.WriteFile(p.list(), b, 0o600)
}

// Verify returns an error if the plugin must not be run: others can write to one of its files, or they are not those
// that were pinned (then it wraps a [ChangedPlugin]). Files that were read before, and whose size, place and times
// are the same since, are not read again.
//
// It protects from what changed between two uses. It cannot from a process of the same account that exchanges a file
// in the moment between this and the start.
func (s *Installed) Verify(ctx context.Context, p InstalledPlugin) error {
	if err := s.MayRun(p.Path); errors.Is(err, fs.ErrNotExist) {
		return s.gone(p)
	} else if err != nil {
		return fmt.Errorf("plugin %s is not run: %w", p.Name(), err)
	}
	l, err := p.look()
	if err != nil {
		return fmt.Errorf("plugin %s is not run: %w", p.Name(), err)
	}
	seen, verified := sumOf([]byte(p.SHA256+" "+l.stamp)), s.remembered()
	if verified.Verified[p.Path] == seen {
		return nil
	}
	pinned, err := p.pinned()
	var changes []*ChangedPlugin
	if err == nil {
		changes, err = p.changes(ctx, l, pinned)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("plugin %s is not run: reading its files takes too long; `launch plugins info %s` reads them "+
			"once, and then they are read only after a change", p.Name(), p.Name())
	case err != nil:
		if changed := (*ChangedPlugin)(nil); errors.As(err, &changed) {
			return changed
		}
		return fmt.Errorf("plugin %s is not run: %w", p.Name(), err)
	case len(changes) > 0:
		changes[0].More = len(changes) - 1
		return changes[0]
	}
	if !l.fresh {
		s.remember(func(m *memory) { m.Verified[p.Path] = seen })
	}
	return nil
}

// gone is the error for a plugin whose program is not there.
func (s *Installed) gone(p InstalledPlugin) error {
	return fmt.Errorf("plugin %s is not run: its program %s is gone; `launch plugins remove %s` forgets it",
		p.Name(), p.Path, p.Name())
}

// changes lists how the files differ from those that were pinned.
func (p InstalledPlugin) changes(ctx context.Context, l look, pinned []pin) (out []*ChangedPlugin, err error) {
	now, err := l.pins(ctx)
	if err != nil {
		return nil, err
	}
	old := map[string]pin{}
	for _, f := range pinned {
		old[f.Path] = f
	}
	path := func(rel string) string {
		if p.Folder == "" {
			return p.Path
		}
		return filepath.Join(p.Folder, rel)
	}
	for _, f := range now {
		was, ok := old[f.Path]
		delete(old, f.Path)
		switch {
		case !ok:
			out = append(out, &ChangedPlugin{p, path(f.Path), "was added", 0})
		case was != f:
			out = append(out, &ChangedPlugin{p, path(f.Path), "has changed", 0})
		}
	}
	for rel := range old {
		out = append(out, &ChangedPlugin{p, path(rel), "was removed", 0})
	}
	slices.SortFunc(out, func(a, b *ChangedPlugin) int {
		return cmp.Or(strings.Compare(a.How, b.How), strings.Compare(a.File, b.File))
	})
	return out, nil
}

// Changes lists the files of a plugin that are not as they were pinned. None: all are.
func (s *Installed) Changes(ctx context.Context, p InstalledPlugin) ([]*ChangedPlugin, error) {
	l, err := p.look()
	if err != nil {
		return nil, err
	}
	pinned, err := p.pinned()
	if changed := (*ChangedPlugin)(nil); errors.As(err, &changed) {
		return []*ChangedPlugin{changed}, nil
	}
	if err != nil {
		return nil, err
	}
	return p.changes(ctx, l, pinned)
}

// Files counts the files of a plugin as they were pinned.
func (s *Installed) Files(p InstalledPlugin) (int, error) {
	pinned, err := p.pinned()
	return len(pinned), err
}

// memory is the document of [Installed.Cache]. Nothing depends on it: without it files are read again, and a line is
// printed again.
type memory struct {
	Verified map[string]string `json:"verified,omitempty"` // by a plugin's path, the stamp of what was found unchanged
	Told     []string          `json:"told,omitempty"`     // programs that the user was told of
}

func (s *Installed) remembered() memory {
	var m memory
	if s.Cache != "" {
		_ = readJSON(s.Cache, maxIndex, &m) // what was not remembered is found out again
	}
	if m.Verified == nil {
		m.Verified = map[string]string{}
	}
	return m
}

func (s *Installed) remember(f func(*memory)) {
	if s.Cache == "" {
		return
	}
	m := s.remembered()
	f(&m)
	if b, err := json.Marshal(m); err == nil && private.MkdirAll(filepath.Dir(s.Cache)) == nil {
		_ = private.WriteFile(s.Cache, b, 0o600)
	}
}

// Untold returns those of the programs that could be trusted and that it has not returned before.
func (s *Installed) Untold(programs []InstalledProgram) (out []InstalledProgram) {
	told := s.remembered().Told
	for _, p := range programs {
		if p.MayBeTrusted && !slices.Contains(told, p.Path) {
			out = append(out, p)
		}
	}
	if len(out) > 0 {
		s.remember(func(m *memory) {
			for _, p := range out {
				m.Told = append(m.Told, p.Path)
			}
		})
	}
	return out
}
