package draft

import (
	"strings"
	"testing"
)

// What saves a whole state, and what goes on from one, is known whatever the program calls it.
func TestWholeStates(t *testing.T) {
	const head = "import argparse, torch\np = argparse.ArgumentParser()\n" +
		"p.add_argument('--batch-size', type=int, default=8)\np.add_argument('--resume')\n" +
		"p.add_argument('--ckpt_path')\np.add_argument('--out', default='out')\na = p.parse_args()\n" +
		"loader = torch.utils.data.DataLoader(ds, batch_size=a.batch_size)\n"
	const loop = "for it, x in enumerate(loader):\n    torch.save({'model': m.state_dict(), "
	const end = "torch.save(m.state_dict(), 'end.pt')\n"
	none := strings.Replace(head, "p.add_argument('--resume')\n", "", 1)
	const read = "if a.resume:\n    ck = torch.load(a.resume)\n    opt.load_state_dict(ck['opt'])\n"
	for name, tt := range map[string]struct{ source, want, not string }{
		"a short name of the optimizer": {head + read + loop + "'opt': opt.state_dict(), 'it': it}, f'{a.out}/ck_{it}.pt')\n",
			"resume: {--resume: '{out}/ck_[0-9]*.pt'}", "!# resume: {--resume: 'checkpoints"},
		"options beside the weights": {head + read + loop + "'opt': opt}, f'{a.out}/ck_{it}.pt')\n",
			"# resume: ", "script: train.py"},
		"an Accelerator": {head + "acc = Accelerator()\nif a.resume:\n    acc.load_state(a.resume)\nfor e in range(9):\n" +
			"    acc.save_state(f'{a.out}/epoch_{e}')\ntorch.save(m.state_dict(), 'end.pt')\n",
			"resume: {--resume: '{out}/epoch_[0-9]*'}", "!# resume: {--resume: 'checkpoints"},
		"Lightning": {none + "trainer.fit(m, loader, ckpt_path=a.ckpt_path)\n" + end, "# resume: ",
			"!resume: none"},
		"Lightning, by --resume": {head + "trainer.fit(m, loader, ckpt_path=a.resume)\n" + end,
			"# resume: {--resume: 'lightning_logs", "script: train.py"},
		"Lightning, from the beginning": {strings.Replace(none, "p.add_argument('--ckpt_path')\n", "", 1) +
			"trainer.fit(m, loader, ckpt_path=None)\n" + end, "resume: none", "script: train.py"},
	} {
		t.Run(name, func(t *testing.T) {
			drafted(t, map[string]string{"train.py": tt.source}, "python train.py", []string{tt.want, tt.not})
		})
	}
}
