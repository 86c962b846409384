package dualattn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
)

const (
	cutData    = "data"   // the cut data set, in a rehearsal's folder
	mostText   = 16 << 20 // of a list of images; CUB-200-2011's has 700 kB
	mostBeside = 100      // files beside it
	cutList    = "images.txt"
	cutSplit   = "train_test_split.txt"
)

// shortCUB is CUB-200-2011 with as many images of either split as four optimizer steps take: links to what lies in its folder,
// and an images.txt of its own, which alone says which images there are (CUBDataset._load_annotations,
// fgvc_datasets.py:84-93 at 6a4e6b6, the same at all commits from 227722e). Nothing of the images is copied.
func (x *checkout) shortCUB() ([]job.Put, error) {
	switch takes := slices.ContainsFunc(x.options, func(o config.Option) bool { return slices.Contains(o.Names, "--data_root") }); {
	case x.task != "fgvc" || x.dataset != "cub":
		return nil, errors.New("only that of CUB is known")
	case !takes:
		return nil, errors.New("no option says where it lies")
	}
	root, ok := x.argv.Get("--data_root")
	if !ok {
		root = x.class.text("data_root")
	}
	if root == "" {
		return nil, errors.New("where it lies is not known")
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(x.prog.Dir, root)
	}
	beside, err := os.ReadDir(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", root, errors.Unwrap(err))
	case len(beside) > mostBeside:
		return nil, fmt.Errorf("%s has more files than that data set", root)
	}
	list, err := x.cutImages(root)
	if err != nil {
		return nil, err
	}
	puts := []job.Put{{Path: filepath.Join(cutData, cutList), Text: list}}
	for _, e := range beside {
		if e.Name() != cutList {
			puts = append(puts, job.Put{Path: filepath.Join(cutData, e.Name()), Link: filepath.Join(root, e.Name())})
		}
	}
	return puts, nil
}

// cutImages is the head of images.txt by split. A batch of the largest rung must be full in training and in validation.
func (x *checkout) cutImages(root string) ([]byte, error) {
	var texts [2][]byte
	for i, name := range [...]string{cutList, cutSplit} {
		path := filepath.Join(root, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
		}
		if !info.Mode().IsRegular() || info.Size() > mostText {
			return nil, fmt.Errorf("%s is no list of images", path)
		}
		if texts[i], err = file.Read(path, mostText); err != nil {
			return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
		}
	}
	split := map[string]string{}
	for line := range strings.Lines(string(texts[1])) {
		if id, s, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			split[id] = s
		}
	}
	most := 4 * max(1, x.micro) * max(1, x.accum)
	var out bytes.Buffer
	seen := map[string]int64{}
	for line := range strings.Lines(string(texts[0])) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if s, ok := split[id]; ok && seen[s] < most {
			seen[s]++
			out.WriteString(strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	if seen["1"] == 0 || seen["0"] == 0 {
		return nil, fmt.Errorf("%s names no images of both splits", filepath.Join(root, cutList))
	}
	return out.Bytes(), nil
}

// data is the folder of the data set: --data_root, or a field of the configuration.
func (x *checkout) data() []job.Data {
	d := job.Data{At: config.Address{Doc: config.ArgvDoc, Path: "--data_root"}, What: "the data set"}
	root, ok := x.argv.Get("--data_root")
	if !ok {
		root = x.class.text("data_root")
		if s, found := x.class.field("data_root"); found {
			d.At = config.Address{Doc: s.src.Path, Path: s.item.Path}
		}
	}
	if root == "" {
		return nil
	}
	if d.Path = root; !filepath.IsAbs(root) {
		d.Path = filepath.Join(x.prog.Dir, root)
	}
	return []job.Data{d}
}
