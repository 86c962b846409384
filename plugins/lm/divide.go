package lm

import (
	"errors"

	"github.com/launch-ml/launch/core/plugin"
)

// divide finds out how the global batch is divided. The error may be a [plugin.Need] of the number of cards.
func divide(s *settings, t *training) (err error) {
	if s.is(axolotl) {
		if err := divideAxolotl(s, t); err != nil {
			return err
		}
		t.ranks, t.replicas, err = world(s, t)
		return err
	}
	var errs [3]error
	t.split.Micro, errs[0] = s.count("per_device_train_batch_size", 8)                   // training_args.py:777
	t.split.Accumulation, errs[1] = s.count("gradient_accumulation_steps", 1)            // training_args.py:849
	if s.kind.config == "" && s.on("do_eval") || s.text("eval_strategy", "no") != "no" { // training_args.py:1571
		t.evals, errs[2] = s.count("per_device_eval_batch_size", 8) // training_args.py:1128
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	t.ranks, t.replicas, err = world(s, t)
	return err
}

// world is how many processes share a step. Without a launcher one process uses all cards by torch.nn.DataParallel
// (training_args.py:1949).
func world(s *settings, t *training) (n int64, replicas bool, err error) {
	devices := s.command.Devices
	for _, l := range s.prog.Launchers {
		n, asks := l.Ranks(devices)
		if asks && devices == 0 {
			return 0, false, &plugin.Need{Devices: true}
		}
		if n > 0 {
			return int64(n), false, nil
		}
	}
	if s.is(axolotl) {
		n, err := worldAxolotl(s, t)
		return n, false, err
	}
	if devices == 0 {
		return 0, false, &plugin.Need{Devices: true}
	}
	if s.prog.Path() == "" { // trl and LLaMA-Factory start a process for each card (launcher.py:61)
		return max(1, int64(devices)), false, nil
	}
	return max(1, int64(devices)), devices > 1, nil
}
