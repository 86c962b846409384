package sisr

import (
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// neosrStep reads what neosr's own step asks of a recipe (neosr/models/image.py at 31c7022, init_training_settings).
func (r *recipe) neosrStep() arch.NeosrStep {
	set := func(path string) bool { // anything but false and nothing
		v := r.at(path)
		on, isBool := v.Bool()
		return v.Exists() && !v.IsNull() && (on || !isBool)
	}
	clamp, isBool := r.at("train.clamp").Bool()
	n := arch.NeosrStep{
		Unclamped: isBool && !clamp, MatchLQ: set("train.match_lq_colors"),
		Augments: augments(r.at("datasets.train.augmentation")),
		SAM:      set("train.sam"), ECO: set("train.eco"),
	}
	if set("train.wavelet_guided") {
		n.Wavelet = "0"
		if from := r.at("train.wavelet_init"); from.Exists() {
			n.Wavelet = from.Text()
		}
	}
	return n
}

// augments reports whether neosr changes the crops on the card (feed_data in image.py:441).
func augments(v config.Value) bool {
	if v.Len() == 1 {
		s, _ := v.Index(0).Str()
		return s != "none"
	}
	return v.Len() > 1
}

// neosrQueue is the pool of otf, of whole batches (neosr/models/otf.py:31 at 31c7022).
func (r *recipe) neosrQueue() int64 {
	const unset = 180
	return r.int(r.queue, unset) / max(1, r.microBatch) * max(1, r.microBatch)
}
