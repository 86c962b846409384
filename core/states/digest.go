package states

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wholeHash is the largest file that is read completely, in bytes. It is more than one block for each sample.
const wholeHash = 4 << 20

// digestForm begins each digest: one of another form is compared with nothing.
const digestForm = "1:"

// Digest identifies a state by its content, without its name, its times and its place. It reads the whole of a small
// file; of a large one its size, the beginning, the end and blocks in between, and the checksums in the directory of an
// archive. Of a folder it takes every file.
func Digest(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if !info.IsDir() {
		if err := addFile(sum, path); err != nil {
			return "", err
		}
		return digestForm + hex.EncodeToString(sum.Sum(nil)[:16]), nil
	}
	var names []string
	err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err != nil || len(names) >= most {
			return fs.SkipAll
		}
		if rel, err := filepath.Rel(path, at); err == nil && e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, rel)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(sum, "%q ", name)
		if err := addFile(sum, filepath.Join(path, name)); err != nil {
			return "", err
		}
	}
	return digestForm + hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// addFile adds a file's content to a sum.
func addFile(sum hash.Hash, path string) error {
	s, done, err := openSaved(path)
	if err != nil {
		return err
	}
	defer done()
	_ = binary.Write(sum, binary.LittleEndian, s.size) // a hash takes everything
	b := make([]byte, block)
	for _, at := range samples(s.size) {
		n, err := s.ReadAt(b, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		sum.Write(b[:n])
	}
	if s.size <= wholeHash || !isZip(s) {
		return nil
	}
	if z, err := zip.NewReader(s, s.size); err == nil {
		for _, f := range z.File {
			fmt.Fprintf(sum, "%q %d %d ", f.Name, f.UncompressedSize64, f.CRC32)
		}
	}
	return nil
}

// Changed returns why the state at path is no longer the one with that digest, or can no longer be read; "" if it
// is and can. Nothing is known of a state without a digest.
func Changed(path, digest string) string {
	if digest == "" {
		return ""
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "no longer exists"
	}
	if strings.HasPrefix(digest, digestForm) {
		switch now, err := Digest(path); {
		case err != nil:
			return fmt.Sprintf("cannot be read (%v)", err)
		case now != digest:
			return "changed since this run wrote it"
		}
	}
	if err := whole(path); err != nil {
		return fmt.Sprintf("cannot be read (%v)", err)
	}
	return ""
}
