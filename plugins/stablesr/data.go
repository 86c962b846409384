package stablesr

import (
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

const (
	dataSource = "basicsr/data/realesrgan_dataset.py"
	keyData    = "data.params."
)

// set is a data set's section: its class, and its arguments, which lie beside it where the data module is the class
// (ldm/data/simple.py:29 of zero123 at f426883b).
func (r *recipe) set(name string) (target string, params tree) {
	s := section(r.root, keyData+name)
	if target = text(s, "target"); target == "" {
		return text(r.root, "data.target"), s
	}
	return target, section(s, "params")
}

// sizeKeys are the arguments of a data set that say how large its images come out, the last step's first.
var sizeKeys = []string{"out_size", "crop_size", "crop_res", "size", "config.size", "resolution", "output_size"}

// imageSize is the side of a data set's images: by its arguments, or by a default of a data set that is known. 0 is
// unknown: a first stage's resolution is what it was made for, not what it is given.
func (r *recipe) imageSize(name string) int64 {
	target, params := r.set(name)
	switch v := params["image_transforms"].(type) {
	case []any:
		return transformed(v)
	case tree: // of squares (ldm/data/simple.py:45 of zero123 at f426883b)
		n, _ := integer(v, "size")
		return n
	}
	for _, key := range sizeKeys {
		if n, ok := integer(params, key); ok && n > 0 {
			return n
		}
	}
	switch target {
	case "edit_dataset.EditDataset": // edit_dataset.py:25 of instruct-pix2pix at 0dffd1ee
		return 256
	// paired_image_dataset.py:89 at 398ee938; others have it and do not look at it
	case "basicsr.data.paired_image_dataset.PairedImageDataset":
		n, _ := integer(params, "gt_size")
		return n
	// what scripts/generate_vqgan_data.py:284 at 398ee938 writes
	case "basicsr.data.single_image_dataset.SingleImageNPDataset":
		return 512
	}
	return 0
}

// transformed is what torchvision's transforms make of an image. Resize with one number keeps its shape, which nobody
// knows, until a crop makes it a square.
func transformed(transforms []any) (side int64) {
	for _, t := range transforms {
		m, _ := t.(tree)
		name := text(m, "target")
		switch name = name[strings.LastIndexByte(name, '.')+1:]; name {
		case "Resize", "RandomCrop", "CenterCrop", "RandomResizedCrop":
		default:
			continue
		}
		size, _ := get(m, "params.size")
		switch v := size.(type) {
		case int64:
			if name != "Resize" {
				side = v
			} else if side > 0 { // of a square
				side = v
			}
		case []any:
			if len(v) == 2 && v[0] == v[1] {
				side, _ = v[0].(int64)
			} else {
				side = 0
			}
		}
	}
	return side
}

// A photoSet is a data set whose sample holds images of the size that it is asked for, in float32.
type photoSet struct {
	images int64 // of that size
	source int64 // pixels of an image in its files; 0 where anything may lie there
}

// photoSets are the data sets of latent-diffusion's recipes and of its forks', by the beginnings of their classes.
var photoSets = []struct {
	target string
	photoSet
}{
	// PersonalizedBase of textual_inversion at 424192de, Dreambooth at 12fa9509
	{"ldm.data.personalized", photoSet{1, 0}},
	{"ldm.data.lsun.LSUN", photoSet{1, 0}},                 // ldm/data/lsun.py:9 at a506df57
	{"ldm.data.imagenet.ImageNet", photoSet{1, 0}},         // ldm/data/imagenet.py:24 and 247 at a506df57
	{"taming.data.faceshq.CelebAHQ", photoSet{1, 1 << 20}}, // taming/data/faceshq.py:27 at 3ba01b24: 1024 × 1024
	{"taming.data.faceshq.FFHQ", photoSet{1, 1 << 20}},     // :49
	{"ldm.data.simple.hf_dataset", photoSet{1, 0}},         // ldm/data/simple.py:272 of justinpinkney's at c63ca47a
	{"ldm.data.simple.TextOnly", photoSet{1, 1}},           // :298, whose images are zeros
	// edit_dataset.py:17 of instruct-pix2pix at 0dffd1ee: before and after
	{"edit_dataset.EditDataset", photoSet{2, 512 * 512}},
	{"ldm.data.simple.ObjaverseData", photoSet{2, 512 * 512}}, // ldm/data/simple.py:85 of zero123 at f426883b: two views
}

func photosOf(target string) (photoSet, bool) {
	i := slices.IndexFunc(photoSets, func(s struct {
		target string
		photoSet
	}) bool {
		return strings.HasPrefix(target, s.target)
	})
	if i < 0 {
		return photoSet{}, false
	}
	return photoSets[i].photoSet, true
}

// kernel is one of three blur kernels of a sample, padded to 21 × 21 (realesrgan_dataset.py:198 at 398ee93).
const kernel = unit.Bytes(21 * 21 * 4)

// sample is what one sample of a data set's tensors takes, in float32; why says what is not known.
func (r *recipe) sample(set string) (n unit.Bytes, from, why string) {
	target, params := r.set(set)
	if photos, ok := photosOf(target); ok {
		side := r.imageSize(set)
		if side == 0 {
			return 0, "", "how large an image of " + target + " is is not known"
		}
		images := photos.images
		// ConcatDataset gives one of each (main.py:216 of Dreambooth at 12fa9509)
		if set == "train" && has(r.root, keyData+"reg") {
			images *= 2
		}
		n, from = unit.Bytes(images*3*side*side*4), fmt.Sprintf("%d × 3 × %d² × 4 B", images, side)
		if strings.Contains(target, "ImageNetSR") { // LR_image (ldm/data/imagenet.py:345)
			by, ok := integer(params, "downscale_f")
			if !ok || by < 1 {
				by = 4
			}
			n, from = n+unit.Bytes(3*(side/by)*(side/by)*4), fmt.Sprintf("%s, and an image %d times smaller", from, by)
		}
		return n, from, ""
	}
	if !strings.HasSuffix(target, "realesrgan_dataset.RealESRGANDataset") {
		return 0, "", fmt.Sprintf("what a sample of %s holds is not known", target)
	}
	crop, ok := integer(params, "crop_size")
	if !ok {
		crop = 512 // realesrgan_dataset.py:44
	}
	square := unit.Bytes(3 * crop * crop * 4)
	n, from = square+3*kernel, fmt.Sprintf("3 × %d² × 4 B and three kernels", crop)
	if strings.Contains(r.source(dataSource).Code, `'img_edge': img_edge`) { // realesrgan_dataset.py:258 at cea3b81b
		n, from = n+square, from+", and as much of edges"
	}
	return n, from, ""
}

// What a worker holds of each pixel of a whole image. In StableSR those are imdecode's three bytes, and float32
// before and after it is divided by 255 (basicsr/utils/img_util.py, imfrombytes, at 398ee93); elsewhere Pillow's
// three bytes, those of an array, and of what is cut from it (ldm/data/lsun.py:46 at a506df57).
const (
	decodedPixel = 3 + 12 + 12
	photoPixel   = 3 + 3 + 3
)

// looked is of how many images the headers are read to guess how large the data set's are.
const looked = 16

// decoded guesses what a worker holds while it makes a sample.
func (r *recipe) decoded(set string) (unit.Bytes, string) {
	target, params := r.set(set)
	photos, known := photosOf(target)
	// configs/stableSRNew at 398ee93
	pixel, largest, like := int64(decodedPixel), int64(7680*4320), "7680 × 4320, as DIV8K has them"
	if known {
		pixel, largest, like = photoPixel, 4000*3000, "4000 × 3000, as a camera makes them"
	}
	if photos.source > 0 {
		return unit.Bytes(photos.source * pixel), fmt.Sprintf("an image of %d pixels, %d B a pixel", photos.source, pixel)
	}
	most, seen := r.largest(r.folders(params))
	if seen == 0 {
		return unit.Bytes(largest * pixel), fmt.Sprintf("an image of %s, %d B a pixel: none could be looked at", like, pixel)
	}
	return unit.Bytes(most * pixel), fmt.Sprintf("the largest of %d images, %d B a pixel", seen, pixel)
}

// folders are where a data set's images lie, as far as the command says.
func (r *recipe) folders(params tree) (folders []string) {
	switch v := params["gt_path"].(type) {
	case string:
		folders = []string{v}
	case []any:
		for _, f := range v {
			folders = append(folders, fmt.Sprint(f))
		}
	}
	if v, ok := r.argv.Get("--data_root"); ok && v != "" { // main.py:757 of Dreambooth at 12fa9509
		folders = append(folders, v)
	}
	return folders
}

// largest is the largest of the first few images of each folder, in pixels.
func (r *recipe) largest(folders []string) (most, seen int64) {
	for _, folder := range folders {
		d, err := os.Open(file.In(r.prog.Dir, folder))
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(looked)
		d.Close()
		for _, name := range names {
			f, err := file.Open(filepath.Join(file.In(r.prog.Dir, folder), name))
			if err != nil {
				continue
			}
			if c, _, err := image.DecodeConfig(f); err == nil {
				most, seen = max(most, int64(c.Width)*int64(c.Height)), seen+1
			}
			f.Close()
		}
	}
	return most, seen
}

// reads are the folders of images and the files of weights that the recipe names.
func (r *recipe) reads() (out []job.Data) {
	doc := strings.Join(r.base, ", ")
	add := func(at config.Address, what, path string) {
		if path != "" {
			out = append(out, job.Data{At: at, Path: file.In(r.prog.Dir, path), What: what})
		}
	}
	for name, what := range map[string]string{"train": "training images", "validation": "validation images"} {
		target, params := r.set(name)
		if target == "" {
			continue
		}
		key := keyData + name + ".params.gt_path"
		switch v := params["gt_path"].(type) {
		case string:
			add(config.Address{Doc: doc, Path: key}, what, v)
		case []any:
			for _, f := range v {
				add(config.Address{Doc: doc, Path: key}, what, fmt.Sprint(f))
			}
		}
	}
	if v, ok := r.argv.Get("--data_root"); ok {
		add(config.Address{Doc: config.ArgvDoc, Path: "--data_root"}, "training images", v)
	}
	for _, key := range []string{"model.params.ckpt_path", "model.params.first_stage_config.params.ckpt_path"} {
		add(config.Address{Doc: doc, Path: key}, "weights to begin with", text(r.root, key))
	}
	slices.SortStableFunc(out, func(a, b job.Data) int { return strings.Compare(a.What, b.What) })
	return out
}
