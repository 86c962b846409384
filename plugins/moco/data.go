package moco

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
)

// maxImages bounds a count: beyond it no bound that a data set sets is near.
const maxImages = 4 << 20

// maxDepth bounds how deep folders are followed, through links too: ImageFolder's images lie at a depth of one or two.
const maxDepth = 6

// imageTypes are torchvision's IMG_EXTENSIONS (datasets/folder.py at v0.14).
var imageTypes = []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}

// countImages counts the images of a folder, with deep those below it too, as ImageFolder does. cut says that it stopped
// before the end: the images are then at least as many. It reads names only.
func countImages(ctx context.Context, dir string, deep bool, types []string) (images int64, cut bool) {
	type folder struct {
		path  string
		depth int
	}
	folders := []folder{{dir, 0}}
	for len(folders) > 0 {
		here := folders[len(folders)-1]
		folders = folders[:len(folders)-1]
		d, err := os.Open(here.path)
		if err != nil {
			continue
		}
		for {
			entries, err := d.ReadDir(4096)
			for _, e := range entries {
				switch {
				case slices.Contains(types, strings.ToLower(filepath.Ext(e.Name()))):
					images++
				case deep && here.depth < maxDepth && (e.IsDir() || e.Type()&os.ModeSymlink != 0):
					folders = append(folders, folder{filepath.Join(here.path, e.Name()), here.depth + 1})
				}
			}
			if err != nil {
				break
			}
			if images >= maxImages || ctx.Err() != nil {
				d.Close()
				return images, true
			}
		}
		d.Close()
		if ctx.Err() != nil {
			return images, true
		}
	}
	return images, false
}

// reads is the folder of the training images: an argument of facebookresearch's programs, a setting of solar-ssl's.
func (p *project) reads() []job.Data {
	d := job.Data{At: config.Address{Doc: config.ArgvDoc, Path: "the folder of images"}, Path: p.data,
		What: "training images"}
	if p.solar != nil {
		dir := p.setting("data", "dataset_path")
		if d.At = dir.at; d.Path == "" && dir.value != "" {
			d.Path = file.In(p.prog.Dir, dir.value)
		}
	}
	if d.Path == "" {
		return nil
	}
	return []job.Data{d}
}
