package oom

import "testing"

const (
	refusedHere = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity " +
		"of 15.90 GiB of\n"
	refusedHost = "RuntimeError: [enforce fail at alloc_cpu.cpp:100] err == 0. DefaultCPUAllocator: can't allocate " +
		"memory: you tried " +
		"to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)\n"
	paging = "OSError: [WinError 1455] The paging file is too small for this operation to complete.\n"
)

// A phased text is one of which only the phase is looked at.
type phased struct {
	name, text string
	want       Phase
}

func (p phased) check(t *testing.T) {
	t.Helper()
	t.Run(p.name, func(t *testing.T) {
		if r := reported(t, p.text); !r.OOM || r.Phase != p.want {
			t.Errorf("phase %s, want %s (%v): %s", r.Phase, p.want, r.OOM, r.Cause)
		}
	})
}

// TestFalsePhases: what stands within a training is not all of it a step of training.
func TestFalsePhases(t *testing.T) {
	start := began + call("run.py", "<module>", "training(opt)")
	train := start + call("run.py", "training", "scene = Scene(opt)")
	spawned := began + call(`C:\py\lib\multiprocessing\spawn.py`, "spawn_main", "exitcode = _main(fd, parent_sentinel)") +
		call(`C:\w\go.py`, "<module>", "import torch") + call(`C:\py\Lib\site-packages\torch\__init__.py`, "<module>",
		"raise err")
	fit := began + call("run.py", "<module>", "main()") + call("run.py", "train", "net.fit(x, y)") +
		call(library+"keras/utils/traceback_utils.py", "error_handler", "raise e") +
		call(library+"tensorflow/python/eager/execute.py", "quick_execute", "tensors = run()") +
		"tensorflow.errors.ResourceExhaustedError: Graph execution error:\n\nOOM when allocating tensor with shape[8,8] " +
		"and type " +
		"float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
	shards := "Loading checkpoint shards: 100%|████████| 3/3 [00:09<00:00]\n"
	state := call(library+"transformers/modeling_utils.py", "load_state_dict", "with safe_open(path) as f:")
	for _, p := range []phased{
		{"a constructor", train + call("scene.py", "__init__", "self.grid = zeros()") + refusedHere, Build},
		{"a constructor without its underscores", train + call("scene.py", "_init_", "self.grid = zeros()") + refusedHere,
			Build},
		{"what a constructor calls", train + call("scene.py", "__init__", "self.points.create_from_file(p)") +
			call("points.py", "create_from_file", "near = knn(p.cuda())") + refusedHere, Build},
		{"without a constructor", train + call("scene.py", "make_encoder", "w = zeros()") + refusedHere, Build},
		{"an object of a forward", start + call("run.py", "training", "y = net(x)") + call("net.py", "forward",
			"m = Mask(x)") +
			call("net.py", "__init__", "self.m = ones(x)") + refusedHere, TrainForward},
		{"weights that Transformers reads", began + state + refusedHere, Build},
		{"a file of them that is mapped", began + state + "RuntimeError: unable to mmap 5123456789 bytes from file " +
			"</m/encoder/model-00002-of-00004.safetensors>: Cannot allocate memory (12)\n", Build},
		{"weights that a trainer reads to go on", began + call("run.py", "resume", "load_sharded(model)") + state +
			refusedHere,
			Checkpoint},
		{"an import in a process that begins", spawned + paging, Unknown},
		{"a graph", fit, Unknown},
		{"a graph with its function", fit + "\t [[{{node conv}}]] [Op:__inference_train_function_88]\n", TrainForward},
		{"weights that were loaded", shards + refusedHere, Unknown},
		{"weights that are being loaded", "Loading checkpoint shards: 33%|███     | 1/3 [00:03<00:06]\n" + refusedHere,
			Build},
		{"a plan is no counter", "Batch size = 4 | Gradient Accumulation steps = 2\n" + refusedHere, Unknown},
	} {
		p.check(t)
	}
	if r := reported(t, shards+refusedHere); r.Part != "" {
		t.Errorf("part %s after the weights were loaded", r.Part)
	}
}

// TestMissingPhases: a loss below a training, and lines that build a set of data.
func TestMissingPhases(t *testing.T) {
	start := began + call("run.py", "<module>", "main()")
	ofMain := func(source string) string { return start + call("run.py", "main", source) + refusedHost }
	loss := func(outer string) string {
		return start + call("run.py", "main", "go()") + call("algo.py", outer, "l = self.contrastive_loss(z)") +
			call("algo.py", "contrastive_loss", "same = a == b") + refusedHost
	}
	for _, p := range []phased{
		{"a loss in a training", loss("train_encoder"), TrainForward},
		{"a loss in a validation", loss("validate"), Validation},
		{"a loss in neither", loss("work"), Unknown},
		{"a set for the training", ofMain("train_set = Pixels(torch.FloatTensor(all))"), Data},
		{"two of them", ofMain("x_train, x_test = split(x)"), Data},
		{"a Dataset", ofMain("d = ImageDataset(root)"), Data},
		{"NumPy's load", ofMain("a = np.load(path)"), Data},
		{"pandas", ofMain("df = pd.read_csv(path)"), Data},
		{"scikit-learn", ofMain("x = PCA(9).fit_transform(x)"), Data},
		{"a map over a tokenizer", ofMain("d = raw.map(tokenize, batched=True)"), Data},
		{"a set's constructor", start + call("datasets/flowers.py", "__init__", "self.all = np.load(p)") + refusedHost, Data},
		{"weights that NumPy reads", start + call("run.py", "load_model", "w = np.load(path)") + refusedHost, Build},
		{"a validation set's target", ofMain("val_y = read(path)"), Data},
		{"a network's name that begins like a set's", ofMain("train_yolo = Net(9)"), Unknown},
		{"a result of a training", ofMain("result = train(net)"), Unknown},
	} {
		p.check(t)
	}
}

// TestCutPhases: a paste that begins inside a traceback still has the line that tells the phase.
func TestCutPhases(t *testing.T) {
	for _, p := range []phased{
		{"inside a frame", "/env/lib/python3.9/site-packages/torch/nn/modules/module.py\", line 700, in convert\n" +
			"    return t.to(device)\n" + refusedHere, Build},
		{"below the last frame", "    Variable._execution_engine.run_backward(\n" + refusedHere, TrainBackward},
		{"below a loss", "    loss.backward()\n" + refusedHere, TrainBackward},
		{"a step of one's own", began + call("run.py", "<module>", "train_step()") +
			call("run.py", "train_step", "grid.optim_color_step(lr)") +
			call("grid.py", "optim_color_step", "n = self.index()") + refusedHere, Optimizer},
		{"JAX's state", began + call("train.py", "main", "state = init_train_state(config)") +
			call("train.py", "init_train_state", "params = model.init(key)") + refusedHere, Build},
		{"no source line", "loss.backward() is next\n" + refusedHere, Unknown},
		{"a frame that is not the first line", "log\nmodule.py\", line 700, in convert\n" + refusedHere, Unknown},
	} {
		p.check(t)
	}
}

// TestSkippedBatch: a program that reports which batch it skips has gone on.
func TestSkippedBatch(t *testing.T) {
	r := reported(t, "Skipping training batch 7 due to OOM error...\nEpoch 3: 12/40 loss: 0.5\n")
	if !r.OOM || r.Fatal {
		t.Errorf("out of memory %v, fatal %v: %s", r.OOM, r.Fatal, r.Cause)
	}
	if r := reported(t, "Skipping batch 7 due to its length\nEpoch 3: 12/40 loss: 0.5\n"); r.OOM {
		t.Errorf("a short batch is called %s", r.Cause)
	}
}
