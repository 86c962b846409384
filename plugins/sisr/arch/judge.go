package arch

import "github.com/launch-ml/launch/core/nn"

// Host is what a validation holds in the host's memory, which counts where the network runs there too.
type Host struct {
	Several bool     // there is more than one image
	Metrics []string // their types: calculate_psnr, calculate_ssim; of others nothing is known
}

// A picture is the size of an image as numpy has it.
type picture struct{ h, w, c int64 }

// array is an array of numpy's of that size, of so many bytes a number.
func (p picture) array(t *nn.Tape, bytes int64) { t.Hold(t.Zeros(nn.Bool, bytes, p.h, p.w, p.c)) }

// before is what the loop of nondist_validation (sr_model.py at 68629319) still has of the image before: the low-resolution
// image, the result and the original in visuals, and the latter two in 8 bits, until this image's take their names.
func (cfg ValConfig) before(t *nn.Tape) {
	if !cfg.Host.Several {
		return
	}
	t.Part("image before", func() {
		t.Hold(t.Zeros(nn.F32, cfg.Net.InCh, cfg.H, cfg.W))
		for range cfg.judged() {
			cfg.result().array(t, 4)
			cfg.result().array(t, 1)
		}
	})
}

func (cfg ValConfig) result() picture {
	return picture{cfg.H * cfg.Net.Scale, cfg.W * cfg.Net.Scale, cfg.Net.gtCh()}
}

// judged is how many images of the high resolution there are.
func (cfg ValConfig) judged() int {
	if cfg.GT {
		return 2
	}
	return 1
}

// judge is what becomes of a result: tensor2img makes 8 bits of it and of the original, by way of three copies in float32
// (utils/img_util.py), and each metric computes with both in float64 (metrics/psnr_ssim.py):
//
//	calculate_psnr  both, and their difference, which numpy squares in place
//	calculate_ssim  both, and of one channel at a time twelve more: two means, their squares and product, two variances, the
//	                product of the images, the covariance, and three of the last line
//
// VmData with torch 2.15 and numpy 2, a result of 1024 × 1024: 36 MiB, 70.9 and 140.5 of 1016 × 1016, for the border that is cropped is
// counted here too; 33 are the image before.
func (cfg ValConfig) judge(t *nn.Tape) {
	const float64s = 8
	p := cfg.result()
	t.Part("images judged", func() {
		for range cfg.judged() {
			t.Scope("tensor2img", func() {
				t.Line("img_np = (img_np * 255.0).round()")
				for range 3 {
					p.array(t, 4)
				}
			})
			p.array(t, 1)
		}
		for _, m := range cfg.Host.Metrics {
			more := picture{p.h, p.w, 0}
			switch m {
			case "calculate_psnr":
				more.c = p.c
			case "calculate_ssim":
				more.c = 12
			}
			if more.c == 0 || !cfg.GT {
				continue
			}
			t.Scope(m, func() {
				t.Line("img = img.astype(np.float64)")
				for _, a := range []picture{p, p, more} {
					a.array(t, float64s)
				}
			})
		}
	})
}
