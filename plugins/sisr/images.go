package sisr

import (
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/launch-ml/launch/core/file"
)

// imageEndings are what the data sets of the family read.
var imageEndings = []string{".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif"}

// scan is what the headers of the images below some folders say.
type scan struct {
	images        int
	width, height int    // of the image with the most pixels
	largest       string // its path
	unreadable    int
	cut           bool // the deadline came before the end: the largest may be larger
}

// maxImages bounds a scan. A validation set is tens or hundreds of images; reading a header takes some 20 µs.
const maxImages = 20_000

// scanImages reads the headers of all images below the folders, or files, in roots, until ctx is done.
// The error says which root cannot be read.
func scanImages(ctx context.Context, dir string, roots []string) (scan, error) {
	var s scan
	if len(roots) == 0 {
		return s, errors.New("the recipe names no folder")
	}
	err := eachImage(ctx, dir, roots, &s, func(path string) {
		w, h, err := imageSize(path)
		if err != nil {
			s.unreadable++
			return
		}
		if w*h > s.width*s.height {
			s.width, s.height, s.largest = w, h, path
		}
	})
	if err == nil && s.images == 0 {
		err = fmt.Errorf("there is no image in %s", strings.Join(roots, ", "))
	}
	return s, err
}

// countImages counts the images below the folders without opening them.
func countImages(ctx context.Context, dir string, roots []string) (scan, error) {
	var s scan
	err := eachImage(ctx, dir, roots, &s, func(string) {})
	return s, err
}

func eachImage(ctx context.Context, dir string, roots []string, s *scan, see func(path string)) error {
	for _, root := range roots {
		abs := root
		if !filepath.IsAbs(abs) {
			abs = filepath.Join(dir, abs)
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("%s: %w", root, errors.Unwrap(err))
		}
		err := filepath.WalkDir(abs, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !slices.Contains(imageEndings, strings.ToLower(filepath.Ext(path))) {
				return nil // a folder that cannot be read is one that the program cannot read either
			}
			if ctx.Err() != nil || s.images >= maxImages {
				s.cut = true
				return filepath.SkipAll
			}
			s.images++
			see(path)
			return nil
		})
		if err != nil {
			return err
		}
		if s.cut {
			return nil
		}
	}
	return nil
}

func imageSize(path string) (w, h int, err error) {
	f, err := file.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	c, _, err := image.DecodeConfig(f)
	return c.Width, c.Height, err
}
