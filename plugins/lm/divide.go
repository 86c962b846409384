package lm

import (
	"errors"

	"github.com/launch-ml/launch/core/plugin"
)

// divideTrainer finds out how the global batch is divided, as TrainingArguments do, and how many processes share a
// step. Without a launcher one process uses all cards by torch.nn.DataParallel (training_args.py:1949).
func divideTrainer(s *settings, t *training) (err error) {
	var errs [3]error
	t.split.Micro, errs[0] = s.count("per_device_train_batch_size", 8)                   // training_args.py:777
	t.split.Accumulation, errs[1] = s.count("gradient_accumulation_steps", 1)            // training_args.py:849
	if s.kind.config == "" && s.on("do_eval") || s.text("eval_strategy", "no") != "no" { // training_args.py:1571
		t.evals, errs[2] = s.count("per_device_eval_batch_size", 8) // training_args.py:1128
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if t.ranks, err = launched(s); t.ranks > 0 || err != nil {
		return err
	}
	t.ranks, err = devices(s)
	t.replicas = t.ranks > 1 && (s.prog.Path() != "" || alone(s))
	return err
}

// alone reports whether a program that is installed starts no process for each card. trl and LLaMA-Factory do
// (launcher.py:61 of 0.9.5), the latter since 0.8 (cli.py:65 of 0.7.1, cli.py:76 of 0.8.0).
func alone(s *settings) bool {
	return s.is(llamaFactory) && factoryBefore(s, 0, 8)
}

// launched is how many processes the launchers before the program start; 0 for none of them.
func launched(s *settings) (n int64, err error) {
	for _, l := range s.prog.Launchers {
		n, asks := l.Ranks(s.command.Devices)
		if asks && s.command.Devices == 0 {
			return 0, &plugin.Need{Devices: true}
		}
		if n > 0 {
			return int64(n), nil
		}
	}
	return 0, nil
}

// devices is how many cards there are: one where that cannot be known. The error is a [plugin.Need] of their number.
func devices(s *settings) (int64, error) {
	if s.command.Devices == 0 {
		return 0, &plugin.Need{Devices: true}
	}
	return max(1, int64(s.command.Devices)), nil
}
