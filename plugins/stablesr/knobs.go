package stablesr

import (
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// The names of the knobs.
const (
	knobMicro        = job.MicroBatch
	knobAccumulation = job.Accumulation
	knobQueue        = "degradation queue"
	knobWorkers      = "loader workers"
	knobStruct       = "structcond activation checkpointing"
	knobUNet         = "UNet activation checkpointing"
	knobPrecision    = "precision"
	knobEMA          = "EMA"
	knobUnfrozen     = "unfrozen UNet"
	knobCrop         = "high-resolution crop"
	knobEdge         = "edge processing"
)

// knobs lists what the recipe says of everything that costs memory.
func (r *recipe) knobs() (out []job.Knob) {
	add := func(name, key, dead string) {
		v, there := get(r.root, key)
		k := job.Knob{Name: name, At: r.address(key), Dead: dead, Default: !there}
		if there {
			k.Value = spelled(v)
		}
		out = append(out, k)
	}
	where := func(name, key, dead string) {
		if has(r.root, key) {
			add(name, key, dead)
		}
	}
	add(knobMicro, keyMicro, "")
	add(knobAccumulation, keyAccum, "")
	if r.stableSR() {
		dead := ""
		if truth(r.root, keyRandom, false) {
			dead = "with random_size there is no pool (ddpm.py:2203)"
		}
		add(knobQueue, keyQueue, dead)
		add(knobStruct, keyStructCkpt, "")
		where(knobUNet, keyUNetCkpt, "it stops the first backward pass: see the warnings")
		add(knobUnfrozen, keyUnfrozen, "")
		where(knobCrop, keyGTSize, "")
		where("training crop", keyTrainCrop, "")
		where("validation crop", keyValCrop, "")
		where("image size", keyImageSize, "")
	}
	where(knobEdge, keyEdge, "")
	add(knobEMA, keyEMA, "")
	where(knobPrecision, keyPrecision, "")
	add(knobWorkers, keyWorkers, "")
	for _, d := range r.dead() {
		add(d.key, d.key, d.why)
	}
	return out
}

// deadKey is a key that stands in the recipe and that no code reads.
type deadKey struct{ key, why string }

// dead lists what stands in the recipe and is read by nobody.
func (r *recipe) dead() (out []deadKey) {
	where := func(key, why string) {
		if has(r.root, key) {
			out = append(out, deadKey{key, why})
		}
	}
	for _, key := range keys(r.root, "lightning.trainer") {
		if _, known := trainerArgs[key]; !known && !slices.Contains(trainerKeys, key) && !slices.Contains(laterArgs, key) {
			where(trainerKey+key, "Lightning's Trainer has no such argument, and main.py drops what it does not know")
		}
	}
	if r.stableSR() {
		where("data.params.train.params.gt_size", "the data set reads crop_size, and the pairs are cut to degradation.gt_size")
		where("data.params.validation.params.gt_size", "the data set reads crop_size, and the pairs are cut to degradation.gt_size")
		where("model.params.unet_config.params.image_size", "the UNet keeps it and does not look at it")
		where("model.params.structcond_stage_config.params.image_size", "the structure encoder takes any size")
		where(keyImages+".max_images", "eight samples are computed whatever it says: it only chooses how many are written")
	}
	return out
}

// address is where the program reads a key last.
func (r *recipe) address(key string) config.Address {
	if r.entry == edgePy {
		return config.Address{Doc: r.base[0], Path: key}
	}
	if name, ok := cutTrainer(key); ok {
		if _, outranks := r.flags[name]; outranks {
			return config.Address{Doc: config.ArgvDoc, Path: "--" + name}
		}
	}
	if w, ok := r.word(key); ok {
		return config.Address{Doc: config.ArgvDoc, Path: w.key}
	}
	return config.Address{Doc: overlayName, Path: key}
}

func cutTrainer(key string) (string, bool) {
	if len(key) > len(trainerKey) && key[:len(trainerKey)] == trainerKey {
		return key[len(trainerKey):], true
	}
	return "", false
}

// stableSR reports whether the model is a StableSR, with its pool and its structure encoder.
func (r *recipe) stableSR() bool { return r.model != nil && r.model.StableSR() }
