package declared

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/python"
)

// What a program does in each forward pass, and a loss that is a sum over the samples of one, change with the split.
func TestEachPass(t *testing.T) {
	const loop = "for epoch in range(9):\n    for i, (x, y) in enumerate(loader):\n        BODY\n" +
		"        (LOSS / args.accum).backward()\n        EACH\n" +
		"        if (i + 1) % args.accum == 0:\n            STEP\n            optimizer.step()\n"
	const sum = "recipe: its loss is a sum over the samples of a pass and is divided by the number of passes"
	const clip = "recipe: gradients are clipped in every forward pass"
	const moving = "recipe: a moving average is updated with every forward pass"
	const short = "recipe: its epochs end after a number of forward passes"
	in := func(part, source string) string {
		out := strings.ReplaceAll(loop, part, source)
		for _, rest := range []string{"BODY", "EACH", "STEP"} {
			out = strings.ReplaceAll(out, rest, "pass")
		}
		return strings.ReplaceAll(out, "LOSS", "loss")
	}
	const vae = "def loss_function(a, b):\n    bce = F.binary_cross_entropy(a, b, reduction='sum')\n    return bce + kld\n"
	for name, tt := range map[string]struct{ source, want string }{
		"a sum": {in("BODY", "loss = F.cross_entropy(net(x), y, reduction='sum')"), sum},
		"a sum by an object": {"crit = nn.MSELoss(reduction='sum')\n" +
			in("BODY", "loss = crit(net(x), y)"), sum},
		"a sum by a function": {vae + in("LOSS", "loss_function(net(x), y)"), sum},
		"a sum by a class": {"class VAELoss(nn.Module):\n    def forward(self, a, b):\n        return " +
			"F.mse_loss(a, b, reduction='sum') + kld\nvae = VAELoss()\n" + in("BODY", "loss = vae(net(x), y)"), sum},
		"a sum of none": {in("BODY", "loss = F.mse_loss(net(x), y, reduction='none').sum()"), sum},
		"with Adam": {"optimizer = AdamW(w)\n" + in("BODY", "loss = F.mse_loss(a, b, reduction='sum')"),
			"numerics: its loss is a sum"},
		"a sum that is divided": {in("BODY", "loss = F.mse_loss(net(x), y, reduction='sum') / len(x)"),
			"numerics: the last"},
		"a sum that is divided later": {in("BODY", "loss = F.mse_loss(a, b, reduction='sum')\n        loss /= x.size(0)"),
			"numerics: the last"},
		"a function that divides": {strings.Replace(vae, "kld", "kld / len(a)", 1) + in("LOSS", "loss_function(net(x), y)"),
			"numerics: the last"},
		"a sum that is only reported": {"def test():\n    t += F.nll_loss(a, b, reduction='sum').item()\ntest()\n" +
			in("BODY", "loss = F.nll_loss(net(x), y)"), "numerics: the last"},
		"sums over the steps": {strings.Replace(in("BODY", "loss = f(x, reduction='sum')"), " / args.accum", "", 1),
			"numerics: the last"},
		"clipped each pass":       {in("EACH", "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)"), clip},
		"clipped each step":       {in("STEP", "clip_grad_norm_(net.parameters(), 1.0)"), "numerics: the last"},
		"clipped where it syncs":  {in("EACH", "if a.sync_gradients: a.clip_grad_norm_(p, 1)"), "numerics: the last"},
		"an average of each pass": {in("EACH", "ema.update(net)"), moving},
		"an average of each step": {in("STEP", "ema.update(net)"), "numerics: the last"},
		"a bar":                   {in("EACH", "bar.update(1)"), "numerics: the last"},
		"an epoch cut short":      {in("BODY", "if i >= args.steps:\n            break"), short},
		"cut short for a trial":   {in("BODY", "if args.debug and i > 3: break"), "numerics: the last"},
		"another number":          {in("BODY", "if bad >= 3: break"), "numerics: the last"},
		"samples of an epoch":     {"s = RandomSampler(d, num_samples=args.batch_size * 10)\n", "recipe: the number of"},
		"samples of all steps":    {"s = RandomSampler(d, num_samples=args.batch_size * args.accum * 10)\n", ""},
	} {
		got := ""
		files := []python.Source{python.NewSource("t.py", tt.source)}
		found := readSplit(files, []string{"batch_size"}, []string{"accum"}).found
		if len(found) > 0 {
			got = found[0].cost.String() + ": " + found[0].why
		}
		if !strings.HasPrefix(got, tt.want) || got != "" && tt.want == "" {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A place in an epoch that is a number of micro-batches is another place at another micro-batch.
func TestInPasses(t *testing.T) {
	const loop = "for i, x in enumerate(loader):\n    if epoch == first and i <= start:\n        continue\n"
	for name, tt := range map[string]struct {
		source string
		want   bool
	}{
		"of a state":      {"start = ck['iter']\n" + loop, true},
		"on one line":     {"start = ck.get('iter', 0)\nfor i, x in enumerate(loader):\n    if i < start: continue\n", true},
		"of a parameter":  {strings.ReplaceAll(loop, "start", "args.start_iter"), true},
		"accelerate":      {"n = int(path.split('_')[1])\ndl = skip_first_batches(loader, n)\n", true},
		"of steps":        {"start = ck['step'] * args.accum\n" + loop, false},
		"of samples":      {"start = ck['seen'] // args.batch_size\n" + loop, false},
		"of epochs":       {"start = ck['epoch']\nfor epoch in range(start, 9):\n    pass\n", false},
		"a number":        {strings.ReplaceAll(loop, "start", "3"), false},
		"steps by a name": {"n = int(path.split('_')[1]) * args.accum\ndl = skip_first_batches(loader, n)\n", false},
		"nothing calls":   {"def f():\n    start = ck['iter']\n" + strings.ReplaceAll("    "+loop, "\n", "\n    "), false},
	} {
		files := []python.Source{python.NewSource("t.py", tt.source)}
		if got := inPasses(files, []string{"batch_size"}, []string{"accum"}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
