package declared

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/python"
)

// Passes that are grouped into optimizer steps may be what a program counts.
func TestGroups(t *testing.T) {
	const step = "    f(x).backward()\n    if (i + 1) % args.accum == 0:\n        optimizer.step()\n"
	for name, tt := range map[string]struct {
		source string
		want   bool
	}{
		"grouped":       {"for i, x in enumerate(loader):\n" + step, true},
		"by a scaler":   {"for i, x in enumerate(loader):\n    scale(f(x), update=(i + 1) % args.accum == 0)\n", true},
		"by accelerate": {"for x in loader:\n    with accelerator.accumulate(net):\n        opt.step()\n", true},
		"inside of a step": {"for i in range(n):\n    for k in range(args.accum):\n        f().backward()\n" +
			"    optimizer.step()\n", false},
		"nothing calls it": {"def old():\n    for i, x in enumerate(loader):\n    " + step, false},
		"by another number": {"for i, x in enumerate(loader):\n    if i % args.log == 0:\n        print(i)\n" +
			"accum = 1\n", false},
	} {
		files := []python.Source{python.NewSource("t.py", tt.source)}
		got := readSplit(files, []string{"batch_size"}, []string{"accum"}).groups
		if got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What another micro-batch changes is read from the source, with its line; "" where it changes only the time.
func TestEffects(t *testing.T) {
	const loop = "for epoch in range(args.epochs):\n    for i, (x, y) in enumerate(loader):\n        loss = f(x, y) " +
		"/ args.accum\n" +
		"        loss.backward()\n        if (i + 1) % args.accum == 0:\n            optimizer.step()\n"
	const grouped = "numerics: the last micro-batches of an epoch may be a partial group, which weighs otherwise or " +
		"is dropped"
	const steps = "recipe: its number of steps counts forward passes, so it makes fewer optimizer updates"
	const long = "recipe: the learning rate's schedule is as long as the forward passes, and advances with the " +
		"optimizer steps"
	const every = "recipe: the learning rate's schedule advances with every forward pass, not with every optimizer step"
	const warm = "recipe: the learning rate's schedule grows with the accumulation, and advances with the optimizer steps"
	const block = "a = Accelerator(accum)\nopt, lr_sched, loader = a.prepare(opt, lr_sched, loader)\n"
	const body = "for x in loader:\n    with a.accumulate(net):\n        a.backward(f(x))\n        opt.step()\n"
	const grows = "recipe: its loss is not divided by the number of passes of a step, so that the gradients grow with it"
	for name, tt := range map[string]struct{ source, want string }{
		// a learning rate of the micro-batch
		"scaled": {"args.lr = args.blr * args.batch_size / 256\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"scaled in place": {"lr = 1\nargs.lr *= args.batch_size / 256.0\n",
			"recipe: the learning rate follows the micro-batch (t.py:2)"},
		"by a variable": {"total = args.batch_size * dist.get_world_size()\nscale = total / 256\noptim.SGD(p, " +
			"lr=args.lr * scale)\n",
			"recipe: the learning rate follows the micro-batch (t.py:3)"},
		"by a name of another function": {"def train(args):\n    total = args.batch_size\n    return total\n" +
			"def main(args):\n    total = args.batch_size * args.accum\n    ratio = total / 256\n" +
			"    args.lr = args.blr * ratio\n    train(args)\nmain(a)\n", ""},
		"by a name of a function around it": {"def main(args):\n    total = args.batch_size * 2\n    def build():\n" +
			"        return SGD(p, lr=args.blr * total)\n    build()\nmain(a)\n",
			"recipe: the learning rate follows the micro-batch (t.py:4)"},
		"by a parameter": {"def main(args):\n    total = args.batch_size * 2\n    build(total)\ndef build(total: int):\n" +
			"    SGD(p, lr=base * total)\nmain(a)\n", "recipe: the learning rate follows the micro-batch (t.py:5)"},
		"by an attribute of another function": {"def main(args):\n    args.total = args.batch_size * 2\n    build(args)\n" +
			"def build(a):\n    SGD(p, lr=base * a.total)\nmain(a)\n",
			"recipe: the learning rate follows the micro-batch (t.py:5)"},
		"beside the batch":      {"batch, lr = int(c['batch_size']), c['lr']\n", ""},
		"beside, the other way": {"lr, n = c['lr'], args.batch_size\n", ""},
		"one of several": {"n, lr = args.batch_size, args.blr * args.batch_size / 256\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"the first of several": {"lr, n = args.blr * args.batch_size, args.batch_size\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"by a function": {"lr = linear(args.lr, cfg['batch_size'])\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"a root": {"lr = base * math.sqrt(args.batch_size / 32)\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"in a group": {"for group in opt.param_groups:\n    group['lr'] = base * args.batch_size / 256\n",
			"recipe: the learning rate follows the micro-batch (t.py:2)"},
		"by the global batch": {"eff = args.batch_size * args.accum * world_size()\nargs.lr = args.blr * eff / 256\n", ""},
		"of one statement":    {"args.lr = args.lr * args.accum * args.batch_size * n\n", ""},
		"a number of passes":  {"steps = len(data) // args.batch_size\nlr = schedule(args.lr, steps)\n", ""},
		"another word":        {"colr = args.batch_size\nclear(args.batch_size)\n", ""},
		"nothing calls it":    {"def scaled(args):\n    lr = args.blr * args.batch_size\n    return lr\n", ""},
		"called": {"def scaled(args):\n    lr = args.blr * args.batch_size\n    return lr\nscaled(a)\n",
			"recipe: the learning rate follows the micro-batch (t.py:2)"},
		"in a comment": {"# lr = args.blr * args.batch_size\n\"\"\"\nlr = args.batch_size\n\"\"\"\n", ""},
		"in a text":    {"print('lr = batch_size * 2')\n", ""},

		"beside it":              {"batch, lr = int(c['batch_size']), c['lr']\nopt = SGD(w, lr=lr)\n", ""},
		"beside it, in brackets": {"batch, lr = (\n    int(args.batch_size),\n    float(args.lr),\n)\n", ""},
		"before it": {"lr, n = args.batch_size / 1000, args.lr\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"of both": {"n, lr = args.batch_size, args.lr * args.batch_size\n",
			"recipe: the learning rate follows the micro-batch (t.py:1)"},
		"by one of both": {"scale, lr = args.batch_size / 256, args.lr\nopt = SGD(w, lr=lr * scale)\n",
			"recipe: the learning rate follows the micro-batch (t.py:2)"},
		"mapped":             {"n, lr = map(float, (args.batch_size, args.lr))\n", ""},
		"grown to the batch": {"eff = args.batch_size\neff *= args.accum\nlr = args.lr * eff / 256\n", ""},
		"whether it is set":  {"lr = args.lr if args.batch_size is not None else 0.1\n", ""},
		"in a name":          {"lr_name = 'bs%d' % args.batch_size\n", ""},
		"chosen by it": {"if args.batch_size < 16:\n    lr = 0.01\n",
			"recipe: the learning rate follows the micro-batch (t.py:2)"},
		"chosen by the batch":   {"if args.batch_size * args.accum < 16:\n    lr = 0.01\n", ""},
		"an optimizer under it": {"if args.batch_size > 1:\n    opt = SGD(w, lr=args.lr)\n", ""},

		// a schedule of passes
		"a schedule of passes": {loop + "            optimizer.zero_grad()\n        scheduler.step()\n",
			"recipe: the learning rate's schedule advances with every forward pass, not with every optimizer step (t.py:8)"},
		"a schedule of steps":  {loop + "            lr_scheduler.step()\n", grouped + " (t.py:5)"},
		"a schedule of epochs": {loop + "    scheduler.step()\n", grouped + " (t.py:5)"},
		"without groups":       {"for x in loader:\n    optimizer.step()\n    scheduler.step()\n", ""},

		"as long as the passes": {"total = len(loader) * epochs\nsched = CosineAnnealingLR(opt, total)\n" + loop +
			"            sched.step()\n", long + " (t.py:2)"},
		"as long as batches": {"sched = LinearLR(opt, 1, 0, math.ceil(n / args.batch_size) * epochs)\n" + loop +
			"            sched.step()\n", long + " (t.py:1)"},
		"as long as the steps": {"total = len(loader) * epochs\ntotal //= args.accum\nsched = LinearLR(opt, 1, 0, total)\n" +
			loop + "            sched.step()\n", grouped + " (t.py:8)"},
		"told where it is": {"n = len(loader)\nsched = CosineAnnealingWarmRestarts(opt, n)\n" + loop +
			"            sched.step(epoch + i / n)\n", grouped + " (t.py:7)"},

		// steps that are passes
		"a range of passes": {"for step in range(args.steps):\n    f().backward()\n    if (step + 1) % args.accum == " +
			"0:\n        opt.step()\n",
			steps + " (t.py:3)"},
		"counted to a limit": {"while it < max_steps:\n    f()\n    it += 1\n    if it % args.accum == 0:\n        " +
			"opt.step()\n", steps + " (t.py:4)"},
		"ended at a limit": {"for x in loader:\n    f(x)\n    it += 1\n    if it % args.accum == 0:\n        opt.step()\n" +
			"    if it >= args.max_steps:\n        break\n", steps + " (t.py:4)"},
		"updates to a limit": {"for x in loader:\n    f(x)\n    i += 1\n    if i % args.accum == 0:\n        " +
			"opt.step()\n        it += 1\n" +
			"    if it >= args.max_steps:\n        break\n", grouped + " (t.py:4)"},
		"passes in a step": {"for it in range(max_iters):\n    for micro in range(args.accum):\n        " +
			"(f() / args.accum).backward()\n    opt.step()\n", ""},

		// accelerate's blocks
		"a block":                     {block + body + "        lr_sched.step()\n", grouped + " (t.py:4)"},
		"a block, not prepared":       {"opt = a.prepare(opt)\n" + body + "        lr_sched.step()\n", every + " (t.py:6)"},
		"a block, prepared elsewhere": {body + "        lr_sched.step()\n", grouped + " (t.py:2)"},
		"a block, all prepared":       {"a.prepare(*all)\n" + body + "        lr_sched.step()\n", grouped + " (t.py:3)"},
		"a block that waits itself": {"opt = a.prepare(opt)\n" + body + "        if a.sync_gradients:\n" +
			"            lr_sched.step()\n", grouped + " (t.py:3)"},
		"a diffusion's step": {"opt = a.prepare(opt)\n" + body + "        noise_scheduler.step(x, t, y)\n",
			grouped + " (t.py:3)"},
		"a block, as long as the passes": {block + "lr_sched = get_schedule(opt, len(loader) * epochs)\n" + body +
			"        lr_sched.step()\n", long + " (t.py:3)"},
		"a block, a grown warm-up": {block + "lr_sched = get_schedule(opt, warmup_steps=args.warm * args.accum)\n" + body +
			"        lr_sched.step()\n", warm + " (t.py:3)"},
		"a block to a limit": {block + body + "    step += 1\n    if step == args.end_step:\n" +
			"        print(x)\n        break\n", steps + " (t.py:4)"},
		"a block, steps to a limit": {block + body + "    if a.sync_gradients:\n        step += 1\n" +
			"    if step == args.end_step:\n        break\n", grouped + " (t.py:4)"},
		"a range of blocks": {"for i in range(args.steps):\n    with a.accumulate(net):\n        opt.step()\n",
			steps + " (t.py:2)"},
		"blocks while": {"while it < max_steps:\n    with a.accumulate(net):\n        opt.step()\n    it += 1\n",
			steps + " (t.py:2)"},

		// gradients that grow with the passes
		"not divided": {"for i, x in enumerate(loader):\n    f(x).backward()\n    if i % args.accum == 0:\n" +
			"        opt.step()\n", grows + " (t.py:2)"},
		"not divided, of a step": {"for k in range(args.accum):\n    f().backward()\n", grows + " (t.py:2)"},
		"of any scale": {"opt = AdamW(p)\nfor k in range(args.accum): f().backward()\n", "numerics" +
			grows[6:] + " (t.py:2)"},
		"clipped": {"opt = AdamW(p)\nfor k in range(args.accum): f().backward()\nclip_grad_norm_(p, 1)\n",
			grows + " (t.py:2)"},
		"divided by a call":    {"for k in range(args.accum):\n    f().div(args.accum).backward()\n", ""},
		"divided later":        {"for k in range(args.accum):\n    f().backward()\nfor p in w: p.grad /= args.accum\n", ""},
		"a sum":                {"for k in range(args.accum):\n    loss = f().sum()\n    loss.backward()\n", ""},
		"divided by an engine": {"for k in range(args.accum):\n    accelerator.backward(f())\n", ""},

		// groups
		"an epoch": {loop, grouped + " (t.py:5)"},
		"a count": {"k = 0\nfor m in batches:\n    k += 1\n    if k == args.accum or last:\n        k = 0\n",
			grouped + " (t.py:4)"},
		"rounded": {"total = len(loader) // args.accum * epochs\n",
			"numerics: the number of optimizer steps is rounded down, so that a partial group of an epoch is dropped (t.py:1)"},
		"rounded by a call": {"total = len(loader) // t.accumulation_iters(2)\nsched = LinearLR(opt, 1, 0, total)\n" + loop +
			"            sched.step()\n",
			"numerics: the number of optimizer steps is rounded down, so that a partial group of an epoch is dropped (t.py:1)"},
		"rounded up":      {"total = math.ceil(len(loader) / args.accum)\n", ""},
		"no accumulation": {"for i, x in enumerate(loader):\n    if i % args.log_every == 0:\n        print(i)\n", ""},
	} {
		files := []python.Source{python.NewSource("t.py", tt.source)}
		got := readSplit(files, []string{"batch_size"}, []string{"accum"}).found
		first := ""
		if len(got) > 0 {
			first = fmt.Sprintf("%v: %s", got[0].cost, got[0].why)
		}
		if first != tt.want {
			t.Errorf("%s: %q, want %q", name, first, tt.want)
		}
	}
}

// Losses that compare the samples of a batch are found by what they do, in the code that is used.
func TestLosses(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		across bool
	}{
		"asked for":             {`batch = {"pixel_values": x, "return_loss": True}`, true},
		"not asked for":         {`batch = {"pixel_values": x, "return_loss": False}`, false},
		"by keyword":            {"model(**x, return_loss=True)", true},
		"a pair model":          {"m = CLIPModel.from_pretrained(n)\nTrainer(model=m)", true},
		"a pair model as judge": {"m = CLIPModel.from_pretrained(n)\nprint(m(x))", false},
		"a text encoder":        {"m = CLIPTextModel.from_pretrained(n)\nTrainer(model=m)", false},
		"its own row":           {"labels = torch.arange(len(z))\nloss = F.cross_entropy(z @ w.t() / tau, labels)", true},
		"its own row, at once":  {"loss = nn.CrossEntropyLoss()\nself.criterion(s, torch.arange(s.size(0), device=d))", true},
		"positions":             {"pos = torch.arange(t)\nx = wpe(pos)\nloss = F.cross_entropy(x, y)", false},
		"NT-Xent":               {"criterion = losses.NTXentLoss(temperature=0.1)", true},
		"InfoNCE":               {"loss = InfoNCE()(q, k)", true},
		"in-batch negatives":    {"loss = losses.MultipleNegativesRankingLoss(model)", true},
		"cached":                {"loss = losses.CachedMultipleNegativesRankingLoss(model)", true},
		"a pair's own label":    {"loss = losses.ContrastiveLoss(model)", false},
		"mined":                 {"miner = miners.TripletMarginMiner(0.2)", true},
		"hard triplets":         {"loss = BatchHardTripletLoss(model)", true},
		"triplets of the data":  {"loss = nn.TripletMarginLoss()(a, p, n)", false},
		"all distances":         {"d = torch.cdist(z, z)", true},
		"gathered":              {"f = all_gather(image_features)", true},
		"gathered figures":      {"f = all_gather(losses)", false},
		"a product":             {"def nt(z):\n    s = z @ z.T\n    return torch.logsumexp(s, 1)\nnt(z)", true},
		"a style":               {"def gram(z):\n    return torch.mm(z, z.t())\ngram(z)", false},
		"attention":             {"def att(q, k):\n    return (q @ k.transpose(-2, -1)).softmax(-1)\natt(q, k)", false},
		"only imported":         {"from losses import InfoNCE, NTXentLoss", false},
		"only defined": {"class ClipLoss(nn.Module):\n    def forward(self, a, b):\n        return " +
			"F.cross_entropy(a @ b.T, torch.arange(len(a)))", false},
		"judged": {"@torch.no_grad()\ndef judge(q, d):\n    return F.cross_entropy(q @ d.T, torch.arange(len(q)))\n" +
			"judge(q, d)", false},
		"judged within": {"with torch.inference_mode():\n    loss = F.cross_entropy(q @ d.T, torch.arange(len(q)))", false},
		"generations":   {"trainer = GRPOTrainer(model=m)", true},
		"a classifier":  {"loss = F.cross_entropy(model(x), y)", false},
	} {
		files := []python.Source{python.NewSource("t.py", tt.source+"\n")}
		got := readSplit(files, []string{"batch_size"}, []string{"accum"}).found
		if across := len(got) > 0 && strings.Contains(got[0].why, "with each other"); across != tt.across {
			t.Errorf("%s: %v, want %v", name, got, tt.across)
		}
	}
}

// Each file of a project is parsed once, however many there are: four times as many files take four times the work.
func TestReadSplitIsLinear(t *testing.T) {
	of := func(n int) float64 {
		var files []python.Source
		for i := range n {
			files = append(files, python.NewSource(fmt.Sprintf("m%d.py", i), "for x in data:\n    loss = net(x)\n"+
				"    loss.backward()\n    if i % accum == 0:\n        optimizer.step()\n"))
		}
		return testing.AllocsPerRun(1, func() { readSplit(files, []string{"batch"}, []string{"accum"}) })
	}
	if few, many := of(10), of(40); many > 8*few {
		t.Errorf("10 files take %.0f allocations, and 40 take %.0f", few, many)
	}
}
