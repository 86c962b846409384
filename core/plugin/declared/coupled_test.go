package declared

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/python"
)

// What is computed over the samples of a micro-batch with each other, and settings that follow from its size, are found
// by what they do; "" where there is nothing of the kind.
func TestCoupled(t *testing.T) {
	const loop = "for i, (x, y) in enumerate(loader):\n    loss = LOSS\n    loss.backward()\n" +
		"    if (i + 1) % args.accum == 0:\n        opt.step()\n"
	const each = "for x in loader:\n    (f(x) / args.accum).backward()\n    opt.step()\n"
	across := "recipe: " + across
	for name, tt := range map[string]struct{ source, want string }{
		"labels with each other": {
			"def loss_of(z, labels):\n    mask = torch.eq(labels.view(-1, 1), labels.view(1, -1))\n" +
				"    return mask\nloss_of(z, y)\n", across + ": it compares their labels"},
		"by ==": {"def f(z, y):\n    loss = g(z, y.unsqueeze(0) == y.unsqueeze(1))\nf(z, y.eq(1))\n",
			across + ": it compares their labels"},
		"labels and ids": {"def f(z, y):\n    loss = g(z, torch.eq(y.unsqueeze(0), ids.unsqueeze(1)))\nf(z, y)\n",
			""},
		"an accuracy": {"def f(z, y):\n    loss = (z.argmax(1).eq(y)).sum()\nf(z, y)\n", ""},
		"a correlation": {"c = z1.T @ z2\nloss = off_diagonal(c).pow(2).sum()\n",
			across + ": it correlates their features"},
		"a covariance": {"def f(z):\n    loss = torch.cov(z.T).norm()\n    return loss\nf(z)\n",
			across + ": it correlates their features"},
		"of figures": {"def f(z):\n    return torch.cov(z.T)\nf(z)\n", ""},
		"a deviation": {"def f(z):\n    loss = F.relu(1 - z.std(dim=0)).mean()\nf(z)\n",
			across + ": it takes their deviation"},
		"of the data": {"def f(z):\n    return (z - z.mean(0)) / z.std(0)\nf(z)\n", ""},
		"pairs": {"def f(q, k):\n" +
			"    s = torch.einsum('nc,mc->nm', [q, k]) if 0 else torch.einsum('nc,mc->nm', q, k)\n" +
			"    return F.cross_entropy(s, t)\nf(q, k)\n",
			across + ": it multiplies their features"},
		"prototypes": {
			"def f(q):\n    s = torch.einsum('nc,kc->nk', q, prototypes)\n    return F.cross_entropy(s, t)\nf(q)\n",
			""},
		"each with its own": {
			"def f(q, k):\n    s = torch.einsum('nc,nc->n', q, k)\n    return F.cross_entropy(s, t)\nf(q, k)\n",
			""},
		"advantages": {"adv = (adv - adv.mean()) / (adv.std() + 1e-8)\n",
			"recipe: advantages are relative to those of the same micro-batch"},
		"a layer of StyleGAN": {"net = nn.Sequential(MinibatchStdLayer(4))\n",
			"numerics: MinibatchStdLayer has a statistic of each micro-batch"},

		"an optimizer's rate, by a function": {
			"def rate(n):\n    return args.lr * n / 256\nopt = SGD(p, rate(args.batch_size))\n",
			"recipe: a setting of the optimizer follows the micro-batch"},
		"its decay": {"wd = 1e-4 * args.batch_size\nopt = SGD(p, lr=0.1, weight_decay=wd)\n",
			"recipe: wd follows the micro-batch"},
		"of the global batch": {"wd = 1e-4 * args.batch_size * args.accum\nopt = SGD(p, lr=0.1, weight_decay=wd)\n",
			""},
		"a moving average": {"lr = 0.1\nema_decay = 0.5 ** (args.batch_size / 10000)\n",
			"recipe: ema_decay follows the micro-batch"},
		"a warm-up": {"lr = 0.1\nwarmup_steps = 10000 // args.batch_size\n",
			"recipe: the warm-up is a number of forward passes"},
		"of optimizer steps":    {"lr = 0.1\nwarmup_steps = 10000 // (args.batch_size * args.accum)\n", ""},
		"another setting of it": {"opt = SGD(p, lr=0.1)\nloader = DataLoader(d, args.batch_size)\n", ""},

		"steps with every pass": {each,
			"recipe: the optimizer steps with every forward pass, whatever the accumulation is"},
		"steps of an engine": {"a = Accelerator(args.accum)\n" + each, ""},
		"passes that go on": {
			strings.Replace(each, "    opt.step", "    if n % args.accum:\n        continue\n    opt.step", 1),
			"numerics: the last micro-batches"},
		"a sum of squares": {strings.Replace(loop, "LOSS", "((f(x) - y) ** 2).sum() / args.accum", 1),
			"recipe: its loss is a sum"},
		"a sum, made at once": {
			strings.Replace(loop, "LOSS", "nn.MSELoss(size_average=False)(f(x), y) / args.accum", 1),
			"recipe: its loss is a sum"},
		"a sum over the channels": {strings.Replace(loop, "LOSS", "((f(x) - y) ** 2).sum(1).mean() / args.accum", 1),
			"numerics: the last micro-batches"},
		"of each card": {strings.Replace(loop, "LOSS", "f(x).sum() / args.accum", 1),
			"numerics: the last micro-batches"},
	} {
		files := []python.Source{python.NewSource("t.py", tt.source)}
		got := ""
		if found := readSplit(files, []string{"batch_size"}, []string{"accum"}).found; len(found) > 0 {
			got = found[0].cost.String() + ": " + found[0].why
		}
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
