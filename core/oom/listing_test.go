package oom

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

const refusedNow = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " +
	"15.90 GiB of which 1.00 GiB is free.\n"

// shown is a frame of a notebook's traceback: its head, and lines of source. The one with an arrow failed.
func shown(head string, first int, lines ...string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	for i, line := range lines {
		source, failed := strings.CutPrefix(line, "> ")
		if failed {
			b.WriteString("----> ")
		} else {
			b.WriteString("      ")
		}
		b.WriteString(strconv.Itoa(first+i) + " " + source + "\n")
	}
	return b.String() + "\n"
}

// within are the frames of a module's forward as a notebook shows them.
var within = shown(library+"torch/nn/modules/module.py in _call_impl(self, *args, **kwargs)", 1700,
	"> return forward_call(*args, **kwargs)") +
	shown("/home/u/flowers/net.py in forward(self, x)", 30, "y = self.stem(x)", "> y = self.mix(y)")

// TestLinesAround: the lines that a notebook shows around a forward pass tell whose it is.
func TestLinesAround(t *testing.T) {
	cell := "<ipython-input-7-0a1b2c3d4e5f> in <module>"
	colab := "/tmp/ipykernel_40/1234567.py in <cell line: 0>()"
	head := strings.Repeat("-", 75) + "\nOutOfMemoryError     Traceback (most recent call last)\n"
	quiet := []string{"with torch.no_grad():", "    for leaf, name in holder:", ">         guess = flora(leaf)"}
	for _, p := range []phased{
		{"a backward pass follows", head + shown(cell, 4, "> guess = flora(leaf)", "miss = gap(guess, name)",
			"miss.backward()") +
			within + refusedNow, TrainForward},
		{"an update follows", head + shown(cell, 4, "> guess = flora(leaf)", "opt_d.step()") + within + refusedNow,
			TrainForward},
		{"gradients were cleared", head + shown(cell, 4, "opt.zero_grad()", "> guess = flora(leaf)") + within + refusedNow,
			TrainForward},
		{"a loop over a training's loader", head + shown(cell, 4, "for leaf in train_loader:",
			">     guess = flora(leaf)") +
			within + refusedNow, TrainForward},
		{"a tape", head + shown(cell, 4, "with tf.GradientTape() as tape:", ">     guess = flora(leaf)") + within +
			refusedNow,
			TrainForward},
		{"a loop over a validation's loader", head + shown(cell, 4, "for leaf in val_loader:",
			">     guess = flora(leaf)") +
			within + refusedNow, Validation},
		{"a validation's data", head + shown(cell, 4, "> guess = flora(x_val)") + within + refusedNow, Validation},
		{"a validation in a function named train", head + shown(cell, 1, "> train(flora)") +
			shown("<ipython-input-6-0a1b2c3d4e5f> in train(net)", 8, "net.eval()", "for leaf in valid_dl:",
				">     net(leaf)") +
			within + refusedNow, Validation},
		{"no gradients, in a program that trains", "epoch 3 loss 0.21\n" + head + shown(cell, 4, quiet...) + within +
			refusedNow,
			Validation},
		{"no gradients, in any program", head + shown(cell, 4, quiet...) + within + refusedNow, Unknown},
		{"a teacher without gradients", head + shown(cell, 4, "with torch.no_grad():", ">     hint = elder(leaf)",
			"(flora(leaf) - hint).sum().backward()") + within + refusedNow, TrainForward},
		{"no lines around", head + shown(cell, 4, "> guess = flora(leaf)") + within + refusedNow, Unknown},
		{"Colab's cell", head + shown(colab, 4, "for leaf in val_loader:", ">     guess = flora(leaf)") + within +
			refusedNow,
			Validation},
		{"a cell of IPython 8.0", head + shown("Input In [5], in <cell line: 3>()", 4, "for leaf in val_loader:",
			">     guess = flora(leaf)") + within + refusedNow, Validation},
		{"a method in a cell of IPython 8", head + shown("Cell In[5], line 4", 4, "> guess = flora(leaf)",
			"miss.backward()") +
			shown("Cell In[3], line 9, in Flora.forward(self, x)", 9, "> y = x @ x") + refusedNow, TrainForward},
		{"indented by a page", indented(head + shown(cell, 4, "> guess = flora(leaf)", "miss.backward()") + within +
			refusedNow), TrainForward},
		{"no frame of the model", head + shown(cell, 4, "> guess = model(leaf)", "miss.backward()") + refusedNow,
			TrainForward},
		{"a batch that is moved", head + shown(cell, 4, "> leaf = leaf.to(device)", "miss.backward()") + refusedNow,
			Unknown},
	} {
		p.check(t)
	}
}

func indented(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// TestStatementsOverLines: Python before 3.8 marks the last line of a statement, and later ones its first.
func TestStatementsOverLines(t *testing.T) {
	head := "ResourceExhaustedError     Traceback (most recent call last)\n"
	cell := "<ipython-input-7-0a1b2c3d4e5f> in <module>"
	run := shown(library+"tensorflow/python/eager/execute.py in quick_execute(op_name, inputs)", 60, "> run(inputs)")
	oom := "ResourceExhaustedError:  OOM when allocating tensor with shape[8,8] and type float on /device:GPU:0 by " +
		"allocator GPU_0_bfc\n\t [[node flora/mix/Conv2D (defined at <ipython-input-7-0a1b2c3d4e5f>:9) ]]\n"
	for _, p := range []phased{
		{"marked at its end", head + shown(cell, 4, "net = flora()", "net.fit(leaves,", "        names,",
			">         epochs=9)") + run + oom,
			TrainForward},
		{"marked at its start", head + shown(cell, 4, "> net.fit(", "    leaves,", "    epochs=9)", "net.save(p)") + run +
			oom, TrainForward},
		{"what its other lines name", "OutOfMemoryError     Traceback (most recent call last)\n" + shown(cell, 4,
			"> guess = flora(",
			"    x_val)") + within + refusedNow, Validation},
		{"another statement's end", head + shown(cell, 4, "net.fit(leaves)", "> print(net(leaves),", "      9)") + run +
			oom, Unknown},
	} {
		p.check(t)
	}
}

// TestListingOfRich: rich draws the lines in a box, and the indentation too.
func TestListingOfRich(t *testing.T) {
	box := "╭──── Traceback (most recent call last) ────╮\n│ /home/u/flowers/go.py:12 in <module>       │\n" +
		"│                                            │\n│    11 │   for leaf in val_loader:          │\n" +
		"│ ❱  12 │   │   guess = flora(leaf)          │\n│    13 │   │   miss.append(guess)           │\n" +
		"│ /home/u/flowers/net.py:31 in forward       │\n│                                            │\n" +
		"│ ❱  31 │   y = self.mix(y)                  │\n╰────────────────────────────────────────────╯\n"
	phased{"a loop over a validation's loader", box + refusedNow, Validation}.check(t)
}

// TestUpdates: the update of weights, by libraries other than torch.
func TestUpdates(t *testing.T) {
	start := began + call("run.py", "<module>", "main()")
	node := func(name string) string {
		return start + call("run.py", "main", "net.fit(x)") + "ResourceExhaustedError: OOM when allocating tensor with " +
			"shape[8,8] and type float on /device:GPU:0 by allocator GPU_0_bfc\n\t [[{{node " + name + "}}]] " +
			"[Op:__inference_train_function_7]\n"
	}
	for _, p := range []phased{
		{"fastai", start + call(library+"fastai/learner.py", "_step", "self.opt.step()") +
			call(library+"fastai/optimizer.py",
				"average_grad", "grad_avg = zeros(p)") + refusedNow, Optimizer},
		{"a program's own", start + call("lion.py", "step", "u = m.mul(b)") + refusedNow, Optimizer},
		{"Keras", start + call(library+"keras/optimizer_v2/adam.py", "_resource_apply_sparse", "v = sqrt(w)") +
			refusedNow, Optimizer},
		{"Keras' gradients", start + call(library+"tensorflow/python/eager/backprop.py", "gradient", "g = grad(t)") +
			refusedNow,
			TrainBackward},
		{"a schedule", start + call("sched/plan.py", "step", "u = m.mul(b)") + refusedNow, Unknown},
		{"a node of Adam's", node("Adam/Adam/update_3/ResourceApplyAdam"), Optimizer},
		{"a node of Keras 2.1's", node("training_2/SGD/mul_9"), Optimizer},
		{"a gradient of Keras 2.1's", node("training_2/SGD/gradients/dense/MatMul_grad/MatMul"), TrainBackward},
		{"a node of the model", node("flora/mix/Conv2D"), TrainForward},
	} {
		p.check(t)
	}
}

// TestWholeSteps: a step that was compiled as one is training's, and which part of it failed nothing tells.
func TestWholeSteps(t *testing.T) {
	start := began + call("run.py", "<module>", "main()")
	jax := call(library+"jax/_src/pjit.py", "cache_miss", "f()") +
		"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: " +
		"Out of memory while trying to allocate 740616652 bytes.\n"
	graph := func(node, function string) string {
		source := "net.fit(x)"
		if function == "predict_function" {
			source = "net.predict(x)"
		}
		return start + call("run.py", "main", source) + "ResourceExhaustedError: Graph execution error:\n\n" +
			"Out of memory while trying to allocate 740616652 bytes.\n\t [[{{node " + node + "}}]] [Op:__inference_" +
			function + "_9]\n"
	}
	for _, p := range []phased{
		{"JAX's", start + call("run.py", "main", "state = train_step(state, b)") + jax, Unknown},
		{"JAX's evaluation", start + call("run.py", "main", "m = eval_step(state, b)") + jax, Validation},
		{"JAX's state", start + call("run.py", "main", "state = create_train_state(rng)") + jax, Build},
		{"XLA's in Keras", graph("cluster_3_1/xla_run", "multi_step_on_iterator"), Unknown},
		{"a function's in Keras", graph("StatefulPartitionedCall", "one_step_on_iterator"), Unknown},
		{"an operation's", graph("flora/mix/Conv2D", "one_step_on_iterator"), TrainForward},
		{"an operation's gradient", graph("gradient_tape/flora/mix/Conv2D", "one_step_on_iterator"), TrainBackward},
		{"a test's", graph("flora/mix/Conv2D", "test_function"), Validation},
		{"a prediction's", graph("flora/mix/Conv2D", "predict_function"), Unknown},
	} {
		p.check(t)
	}
	if r := reported(t, graph("cluster_3_1/xla_run", "multi_step_on_iterator")); r.Stage != "training" {
		t.Errorf("stage %s of a whole step", r.Stage)
	}
}

// TestDataOnItsWay: data that Keras copies to the card, datasets' bars, and YOLOv5's validation.
func TestDataOnItsWay(t *testing.T) {
	start := began + call("run.py", "<module>", "main()")
	copied := func(source string) string {
		return start + call("run.py", "main", source) + call(library+"tensorflow/python/framework/constant_op.py",
			"convert_to_eager_tensor", "return EagerTensor(v)") +
			"InternalError: Failed copying input tensor from CPU:0 to GPU:0 " +
			"in order to run _EagerConst: Dst tensor is not initialized.\n"
	}
	killed := "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.\n"
	for _, p := range []phased{
		{"all of it", copied("net.fit(leaves, names)"), Data},
		{"a set", copied("d = Dataset.from_tensor_slices(leaves)"), Data},
		{"a constant", copied("k = tf.constant(leaves)"), Unknown},
		{"the next batch", start + call("run.py", "main", "net.fit(x)") +
			"ResourceExhaustedError: Graph execution error:\n\n" +
			"SameWorkerRecvDone unable to allocate output tensor.\n\t [[{{node IteratorGetNext/_2}}]] " +
			"[Op:__inference_train_function_9]\n", Data},
		{"a map", "Map (num_proc=4):  30%|███       | 300/1000 [01:12<02:49, 4.11 examples/s]\n" + killed, Data},
		{"a map that ended", "Map (num_proc=4): 100%|██████████| 1000/1000 [01:12<00:00]\n" + killed, Unknown},
		{"YOLOv5's validation", start + call("run.py", "train", "r = val.run(net)") + call("yard/val.py", "run",
			"out = nms(y)") +
			refusedNow, Validation},
		{"a name that a page wrapped", began +
			"File \"run.py\", line 9\n, in train_epoch\nmiss.backward(x)\nFile \"/v/torch/_tensor.py\"" +
			", line 488\n, in backward\nrun(x)\n" + refusedNow, TrainBackward},
	} {
		p.check(t)
	}
}

// TestWordsOfWork: what a program reports about its work right before it fails.
func TestWordsOfWork(t *testing.T) {
	killed := "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.\n"
	start := began + call("run.py", "<module>", "main()")
	read := func(source string) string {
		return start + call("run.py", "main", source) + call(library+"torch/serialization.py", "load", "return _load(f)") +
			call(library+"torch/serialization.py", "_cuda_deserialize", "return obj.cuda()") + refusedNow
	}
	for _, p := range []phased{
		{"a counter of an evaluation", "Evaluation  [ 20/5000]  eta: 0:02:21\n" + killed, Validation},
		{"MMCV's bar", "Epoch [2][250/267] loss: 3.0\n[>>>>>>     ] 6/15, 0.6 task/s, elapsed: 10s, ETA:    15s\n" + began +
			call(library+"mmdet/nms.py", "nms", "k = b[:, None]") + refusedNow, Validation},
		{"a bar of files", "Reading images:  45%|████▌     | 450/1000 [02:11<02:40]\n" + killed, Data},
		{"a preparation", "Preprocessing training data...\n" + killed, Data},
		{"one that was done", "Finished processing data\n" + killed, Unknown},
		{"files, and then the card", "Reading images:  45%|████▌     | 450/1000 [02:11<02:40]\n" + refusedNow, Unknown},
		{"NumPy's message alone", "MemoryError: Unable to allocate 7.91 GiB for an array with shape (1, 9) and data " +
			"type int8\n",
			Unknown},
		{"NumPy's message in a program", start + call("run.py", "main", "a = join(b)") + "MemoryError: Unable to allocate " +
			"7.91 GiB for an array with shape (1, 9) and data type int8\n", Data},
		{"a batch that is moved", "Epoch [2][250/267] loss: 3.0\n" + start + call("run.py", "main",
			"x, y = x.cuda(), y.cuda()") +
			refusedNow, Unknown},
		{"another statement", "Epoch [2][250/267] loss: 3.0\n" + start + call("run.py", "main", "x = mix(x)") + refusedNow,
			TrainForward},
		{"weights to begin with", read("net.load_state_dict(torch.load(args.pretrained))"), Build},
		{"a state to go on from", read("net.load_state_dict(torch.load(args.resume_weights))"), Checkpoint},
		{"an optimizer's state, with the model", start + call("run.py", "load_model",
			"optimizer.load_state_dict(torch.load(p))") +
			call(library+"torch/serialization.py", "load", "return _load(f)") + refusedNow, Checkpoint},
		{"a model's weights, with the model", start + call("run.py", "load_model", "net.load_state_dict(torch.load(p))") +
			call(library+"torch/serialization.py", "load", "return _load(f)") + refusedNow, Build},
		{"actions of an agent", start + call("run.py", "main", "go()") + call("agent.py", "evaluate_actions",
			"h = self.base(o)") +
			forwarded + refusedNow, TrainForward},
	} {
		p.check(t)
	}
}

// The file that a traceback names is read while the program runs here: the lines around the one that is shown tell in
// which loop of a long function it stands.
func TestLinesOfTheFile(t *testing.T) {
	source := strings.Split(`def train_all(net):
    for epoch in range(3):
        net.train()
        for leaf in leaves:
            guess = net(leaf)
            guess.mean().backward()
        net.eval()
        for leaf in eval_dataloader:
            with torch.no_grad():
                guess = net(leaf)
`, "\n")
	failed := func(line int, text string) string {
		return "Traceback (most recent call last):\n  File \"/home/u/grow.py\", line 12, in <module>\n    train_all(net)\n" +
			"  File \"/home/u/grow.py\", line " + strconv.Itoa(line) + ", in train_all\n    " + strings.TrimSpace(text) +
			"\n  File \"" + library + "torch/nn/modules/module.py\", line 1787, in _wrapped_call_impl\n" +
			"    return self._call_impl(*args, **kwargs)\n" + refusedNow
	}
	for name, tt := range map[string]struct {
		text   string
		unread bool
		want   Phase
	}{
		"its training":             {failed(5, source[4]), false, TrainForward},
		"its validation":           {failed(10, source[9]), false, Validation},
		"its validation, not read": {failed(10, source[9]), true, TrainForward},
		"another file's":           {failed(10, "hope = net(leaf)"), false, TrainForward},
		"beyond its end":           {failed(99, source[9]), false, TrainForward},
	} {
		d, err := NewDetector(job.Signs{})
		if err != nil {
			t.Fatal(err)
		}
		d.Source = func(path string) []byte {
			if path != "/home/u/grow.py" || tt.unread {
				return nil
			}
			return []byte(strings.Join(source, "\n"))
		}
		io.WriteString(d, tt.text)
		d.End()
		if got := d.Report(Exit{Code: 1}); got.Phase != tt.want {
			t.Errorf("%s: %v, want %v", name, got.Phase, tt.want)
		}
	}
}
