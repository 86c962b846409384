package host

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// isArchive reports whether a file's name is that of an archive that [unpack] reads. A wheel is one for pip alone.
func isArchive(path string) bool {
	return slices.ContainsFunc([]string{".tar.gz", ".tgz", ".tar", ".zip"}, func(end string) bool {
		return strings.HasSuffix(path, end)
	})
}

// unpack unpacks an archive into a folder, and returns that, or the only thing that lies in it. Nothing gets out of
// the folder.
func unpack(ctx context.Context, path, to string) (string, error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return "", err
	}
	defer root.Close()
	u := &unpacking{ctx: ctx, root: root}
	if strings.HasSuffix(path, ".zip") {
		err = u.zip(path)
	} else {
		err = u.tar(path)
	}
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", path, err)
	}
	all, err := os.ReadDir(to)
	if err != nil {
		return "", err
	}
	if len(all) == 1 && all[0].Type() != fs.ModeSymlink {
		return filepath.Join(to, all[0].Name()), nil
	}
	return to, nil
}

// An unpacking is an archive on its way into a folder.
type unpacking struct {
	ctx   context.Context
	root  *os.Root
	files int
	size  int64
}

func (u *unpacking) tar(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if !strings.HasSuffix(path, ".tar") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		defer z.Close()
		in = z
	}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
			err = u.entry(h.Name, h.FileInfo(), h.Linkname, r)
		default:
			err = fmt.Errorf("%.200q is no file, no folder and no symbolic link", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(path string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			return err
		}
		link := ""
		if f.Mode().Type() == fs.ModeSymlink {
			b, err := io.ReadAll(io.LimitReader(in, 4096))
			if err != nil {
				return err
			}
			link = string(b)
		}
		err = u.entry(f.Name, f.FileInfo(), link, in)
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// entry unpacks one entry of an archive.
func (u *unpacking) entry(name string, info fs.FileInfo, link string, in io.Reader) error {
	path := filepath.Clean(name)
	if !filepath.IsLocal(path) {
		return fmt.Errorf("%.200q would lie outside of the folder", name)
	}
	if u.files++; u.files > mostFiles {
		return fmt.Errorf("it has more than %d files", mostFiles)
	}
	if err := u.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		if err := u.root.Mkdir(path, 0o755); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case info.Mode().Type() == fs.ModeSymlink:
		if !stays(path, link) {
			return fmt.Errorf("%.200q is a link that leads out of the folder, to %.200q", name, link)
		}
		return u.root.Symlink(link, path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%.200q is no file, no folder and no symbolic link", name)
	}
	count := &counter{r: in}
	err := writeFile(u.ctx, u.root.OpenFile, path, count, info.Mode(), mostBytes-u.size)
	u.size += count.n
	if err != nil {
		return err
	}
	if at := info.ModTime(); at.Unix() > 0 {
		return u.root.Chtimes(path, time.Time{}, at)
	}
	return nil
}

// A counter counts the bytes that are read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
