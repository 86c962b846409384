package declared

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/python"
)

// A saved state that counts forward passes is found, with the line that takes its count over.
func TestStatesOfPasses(t *testing.T) {
	const of = "its saved state counts forward passes"
	const loop = "for x in loader:\n    f(x)\n    if step % args.accum == 0:\n        optimizer.step()\n"
	const block = "for x in loader:\n    with a.accumulate(net):\n        opt.step()\n"
	for name, tt := range map[string]struct{ source, want string }{
		"in the state": {"state = {'n_iter': 0}\nfor x in loader:\n    state['n_iter'] += 1\n" +
			"    wait = state['n_iter'] % args.accum != 0\n    if not wait_accum:\n        optimizer.step()\n",
			of + " (t.py:3)"},
		"in a table": {"totals = {'n_iter': 0}\nfor x in loader:\n    totals['n_iter'] += 1\n" +
			"    if not accumulating:\n        optimizer.step()\n", ""},
		"taken over":         {"step = torch.load(p)['step'] + 1\n" + loop + "    step += 1\n", of + " (t.py:1)"},
		"taken by an object": {"self.step = ckpt.get('step', 0)\n" + loop + "    self.step += 1\n", of + " (t.py:1)"},
		"scaled":             {"step = ckpt['step'] * args.accum\n" + loop + "    step += 1\n", ""},
		"scaled later":       {"step = ckpt['step']\nstep *= args.accum\n" + loop + "    step += 1\n", ""},
		"of the settings":    {"step = cfg['step']\n" + loop + "    step += 1\n", ""},
		"of steps":           {"step = ckpt['step']\n" + loop + "        step += 1\n", ""},
		"of losses":          {"loss = ckpt['loss']\n" + loop + "    loss += f(x)\n", ""},
		"of epochs": {"epoch = ckpt['epoch']\nfor e in range(epoch, 9):\n    epoch += 1\n    for x in loader:\n" +
			"        if i % args.accum == 0:\n            optimizer.step()\n", ""},
		"without groups":    {"step = ckpt['step']\nfor x in loader:\n    optimizer.step()\n    step += 1\n# accum\n", ""},
		"of a block":        {"step = ckpt['step']\n" + block + "    step += 1\n# accum\n", of + " (t.py:1)"},
		"of a block's step": {"step = ckpt['step']\n" + block + "    if a.sync_gradients:\n        step += 1\n# accum\n", ""},
		"skipped": {"n = int(name.split('_')[1])\nrest = a.skip_first_batches(loader, n)\n" + loop,
			of + " (t.py:2)"},
		"skipped, scaled":  {"n = int(name) * args.accum\nrest = a.skip_first_batches(loader, n)\n" + loop, ""},
		"nothing calls it": {"def old(ckpt):\n    step = ckpt['step']\n" + loop + "    step += 1\n", ""},
	} {
		got := readSplit([]python.Source{python.NewSource("t.py", tt.source)}, []string{"batch_size"}, []string{"accum"})
		if got.saved != tt.want {
			t.Errorf("%s: %q, want %q", name, got.saved, tt.want)
		}
	}
}

// The imports of an installed program are read from where its package lies, wherever the command runs.
func TestRootsOfPackages(t *testing.T) {
	home := t.TempDir()
	inner := filepath.Join(home, "pkg", "cli")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pkg/__init__.py", "pkg/cli/__init__.py", "pkg/cli/__main__.py"} {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[command.Kind]bool{command.Installed: true, command.Module: true, command.Script: false} {
		p := &program{Prog: command.Prog{Kind: kind, Dir: t.TempDir()}, path: filepath.Join(inner, "__main__.py")}
		if got := p.roots(); slices.Contains(got, home) != want {
			t.Errorf("%v: %q, of %s", kind, got, home)
		}
	}
}
