package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/python"
)

// facts are what an identity needs of a file of source.
type facts struct {
	Hash    string
	Imports []python.Import
	Reads   []string // names of variables
	Dynamic bool
	Opens   opens
	// Constants are paths of data, and Roots folders in which the file has modules looked for.
	Constants, Roots []dataPath
}

// factsOf reads the facts from a file's text.
func factsOf(path string, text []byte) facts {
	f := facts{Hash: digest(text)}
	if filepath.Ext(path) != ".py" && !bytes.HasPrefix(text, []byte("#!")) {
		return f
	}
	s := python.NewSource(path, string(text))
	f.Imports = s.Imports()
	// most files have none of this, and looking for a word is far cheaper than matching
	f.Dynamic = mentions(s.Code, "import_module", "__import__", "runpy", "pkgutil", "walk_packages", "exec(",
		"execfile(", "Loader", "spec_from",
		"cpp_extension", "load_inline") && s.Has(dynamic)
	if mentions(s.Code, mayRead...) {
		f.Reads = variablesIn(s.Code)
	}
	f.Opens, f.Constants, f.Roots = opensOf(s), constantsOf(s), rootsOf(s)
	return f
}

func mentions(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// A stamp tells whether a file may have been written since.
type stamp struct {
	Size            int64
	Modified, Since int64 // mtime and ctime, in Unix nanoseconds
	Inode           uint64
}

func stampOf(path string) (s stamp, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return s, false
	}
	s = stamp{Size: info.Size(), Modified: info.ModTime().UnixNano()}
	if st, is := info.Sys().(*syscall.Stat_t); is {
		s.Since, s.Inode = st.Ctim.Nano(), st.Ino
	}
	return s, true
}

// A cache keeps the facts of a project's files from one launch to the next, as git's index does: a file whose stamp is
// the same is not read again.
type cache struct {
	path    string
	kept    map[string]entry
	changed bool
	now     time.Time
}

type entry struct {
	Stamp stamp
	Facts facts
}

// The name of a cache's file has the version of what it holds: another one is not read.
const cacheVersion = "4"

// fresh is how young a file may be that the cache does not keep: it may be written once more with the same stamp.
const fresh = 2 * time.Second

// openCache opens the cache of the commands that start in a folder. folder is where caches lie; "" for none.
func openCache(folder, dir string) *cache {
	c := &cache{kept: map[string]entry{}, now: time.Now()}
	if folder == "" {
		return c
	}
	sum := sha256.Sum256([]byte(dir))
	c.path = filepath.Join(folder, "code-"+cacheVersion+"-"+hex.EncodeToString(sum[:8]))
	if text, err := private.ReadFile(c.path); err == nil {
		kept := map[string]entry{}
		if gob.NewDecoder(bytes.NewReader(text)).Decode(&kept) == nil {
			c.kept = kept
		}
	}
	return c
}

// read returns the facts of a file. Those of a file that cannot be read have no hash.
func (c *cache) read(path string) facts {
	now, ok := stampOf(path)
	if !ok {
		return facts{}
	}
	if e, hit := c.kept[path]; hit && e.Stamp == now {
		return e.Facts
	}
	text, err := file.Read(path, mostFile)
	if err != nil {
		return factsOfLarge(path, now)
	}
	f := factsOf(path, text)
	if c.path != "" && c.now.Sub(time.Unix(0, max(now.Modified, now.Since))) > fresh {
		c.kept[path], c.changed = entry{now, f}, true
	}
	return f
}

// factsOfLarge stands for the content of a file that is too large for source, such as a compiled extension.
func factsOfLarge(path string, s stamp) facts {
	return facts{Hash: markOf(s.Size, s.Modified)}
}

// save writes the cache, if it has changed. A cache that cannot be written is none.
func (c *cache) save() {
	if c.path == "" || !c.changed {
		return
	}
	var b bytes.Buffer
	if gob.NewEncoder(&b).Encode(c.kept) != nil || private.MkdirAll(filepath.Dir(c.path)) != nil {
		return
	}
	_ = private.Save(c.path, b.Bytes()) // the next launch then reads the files again
}
