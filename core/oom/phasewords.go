package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// What a text tells of the phase where no frames do: names of operations, words of the program about what it does,
// and its counters. The nearest line before the failure counts, then those after it.

// sourcePhases are read in names of operations, as compilers and graphs give them.
var sourcePhases = []linePhase{
	// tf.keras names its functions (keras/engine/training.py), and a user's eager training loop has others
	{Validation, rx(`__inference_test_function|__inference_\w*(?:eval|valid|test|predict)\w*_step|` +
		`\bjit[_(]\w*(?:eval|valid|test|infer|predict)`)},
	{Build, rx(`\[\[(?:\{\{)?[Nn]ode:? [^\]]*(?:initial_value|/Initializer/|/Assign\b|zeros_\d+\b|truncated_normal|` +
		`random_uniform)`)},
	{TrainBackward, rx(`\[\[(?:\{\{)?[Nn]ode:? [^\]]*(?:gradients?[/_]|gradient_tape/)|/gradients/|gradient_tape/|` +
		`_grad/|Conv\dDBackprop|BackpropFilter|transpose\(jvp|operator < \w+_grad > error|\b\w+_grad_ad_func\b|` +
		`::\w+Grad(?:Kernel|Node)\b|egr::(?:Run)?Backward`)},
	// the update of a weight (keras/optimizers/, TensorFlow's ResourceApplyAdam)
	{Optimizer, rx(`\[\[(?:\{\{)?[Nn]ode:? (?:\w+/)?(?:Adam\w*|Nadam|SGD|RMSprop|Adagrad|Adadelta|Ftrl|Momentum|` +
		`GradientDescent|LAMB|Lion)(?:_\d+)?/|\bResource(?:Sparse)?Apply[A-Z]\w+`)},
	// the next batch, on its way to the card, is the first operation named
	{Data, rx(`\A(?:[^\[]|\[[^\[])*\[\[(?:\{\{)?[Nn]ode:? IteratorGetNext`)},
	{TrainForward, inferenceTrain},
	{Checkpoint, rx(`fsdp/_state_dict_utils\.py|after returning from state_dict\(\) call`)},
	{Build, rx(`compile permanent error|XLA:TPU compile`)},
}

// inferenceTrain are the functions of a training that TensorFlow and Keras name below an operation.
var inferenceTrain = rx(`__inference_(?:multi_step_on_iterator|one_step_on_iterator|train_function|\w*train_step|` +
	`train)_\d|__inference_train_function`)

var (
	// wholeGraph is a graph that was compiled as one, of which no operation is named.
	wholeGraph = rx(`\[\[(?:\{\{)?[Nn]ode:? [^\]]*(?:xla_run|XlaLaunch|XlaCompile|StatefulPartitionedCall)`)
	// wholeStep is a call of a training's step, and its name in XLA. Where no frame within it is shown, it was compiled
	// as one.
	wholeStep = rx(`(?:^|= ?|[\s.])\w*(?:train_step|training_step|train_one_step|train_on_batch|train_batch)\(|` +
		`\bjit[_(]\w*(?:train|update)\w*`)
)

// ofWholeStep reports whether a step of training that was compiled as one failed: which part of it, nothing tells.
func (f *finding) ofWholeStep(calls []frame) bool {
	text := printed.Joined(printed.Near(f.rows, f.at, 0, 60))
	if wholeGraph.MatchString(text) && inferenceTrain.MatchString(text) {
		return true
	}
	if n := ownFrame(calls); n >= 0 && !inAny(calls[n:], forwardFrame) && wholeStep.MatchString(f.statement(calls[n])) {
		return true
	}
	return strings.Contains(text, "jit") && wholeStep.MatchString(text)
}

// tfFailure are TensorFlow's messages, below which it names the operation.
var tfFailure = rx(`OOM when allocating tensor|Dst tensor is not initialized|ResourceExhaustedError|` +
	`Graph execution error|^Out of memory while trying to allocate`)

// tfNode is an operation of a TensorFlow graph.
var tfNode = rx(`\[\[(?:\{\{)?[Nn]ode:? `)

// operation is the phase by the operation that TensorFlow names below its message.
func (f *finding) operation() Phase {
	text := printed.Joined(printed.Near(f.rows, f.at, 0, 60))
	if p := phaseByLine(sourcePhases, text); p != Unknown {
		return p
	}
	calls, _ := f.calls()
	if strings.Contains(text, "__inference_predict_function") && f.ofTraining(calls) {
		return Validation
	}
	if p, exact := phaseOf(calls); exact {
		return p
	}
	if tfNode.MatchString(text) && (named(calls) || len(calls) == 0 || f.inTraining(calls) != untrained) {
		return TrainForward
	}
	return Unknown
}

var (
	// wordPhases are read in the words around evidence that has no frames: what people and programs say that they are doing.
	wordPhases = []linePhase{
		{TrainBackward, rx(`(?i)\bbackwards? (?:pass|propagation)\b|(?:during|in|at|` +
			`on) (?:the )?\x60?(?:loss\.)?backward\b|\bback-?propagat`)},
		{Optimizer, rx(`(?i)\boptimi[sz]er\.step\b|(?:during|in|at) (?:the )?optimi[sz]er'?s? (?:step|update)`)},
		{Build, rx(`(?i)captur(?:e|ing) (?:the )?cuda ?graph|loading (?:model|weights|checkpoint shards|pipeline|` +
			`pretrained)|load(?:ing)? .{0,60}weights:|model initiali[sz]ation|initiali[sz]ing (?:the )?model|` +
			`creating (?:the )?model|building (?:the )?model|failed to load (?:the )?model|engine core init|` +
			`EngineCore failed to start|error loading (?:the )?model|load_tensors|kv[ _]cache|KV (?:buffer|self) size|` +
			`compute buffer size|offload(?:ed|ing) [\w/ -]{0,24}layers|moving (?:the )?model to|` +
			`while (?:loading|initiali[sz]ing) (?:the )?(?:model|weights)`)},
		{Checkpoint, rx(`(?i)(?:write|save|saving|dump|load|restore)_?(?:state|checkpoint|ckpt)\b|` +
			`saving (?:the )?(?:\w+ )?(?:model|checkpoint|state|weights|snapshot)|resuming (?:training )?from|` +
			`\b(?:checkpoint|ckpt) (?:write|writing|save|saving)\b|loading (?:the )?(?:checkpoint|state)\b|` +
			`writing (?:the |a )?(?:checkpoint|snapshot)|SafetensorError\b.*seriali[sz]`)},
		{Validation, rx(`(?i)\b(?:running|start(?:ing|ed)?|begin(?:ning)?|doing|performing|during|in|at|on|for|` +
			`the) (?:the )?(?:\w+ )?(?:validation|evaluation|inference)\b(?: (?:step|loop|phase|stage|pass|epoch|time))?|` +
			`\b(?:validating|evaluating|testing)\b|évaluation|\b(?:Valid|Val|Validate|Validation|Evaluation|Eval|Evaluating|` +
			`Test|Testing|Predict|Predicting|Inference)(?: DataLoader \d+)?\b[^|%]{0,40} *\d+%|` +
			`^\W*(?:Valid|Val|Validation|Eval|Evaluation|Test|Testing)\b:? *\[ *\d+/\d+\]|` + // MetricLogger's
			`\[>+ *\] \d+/\d+, [\d.]+ task/s|` + // MMCV's bar, of its tests
			`\((?:valid|val|validation|eval|test)\) ?:|^\W*(?:Valid|Val|Test|Eval|Validation): ?\[|` +
			`===?> ?(?:testing|validating|evaluating)|(?:validation|evaluation|inference) (?:step|loop|phase|stage|pass)\b|` +
			`\*{3,} ?(?:Running )?(?:Evaluation|Prediction)|预测|推理|验证|测试时`)},
		// datasets' bars: "Map (num_proc=4):  30%|", "Generating train split: 120 examples"
		{Data, rx(`(?i)loading (?:the )?(?:dataset|data|images)\b|caching images|tokeniz(?:ing|ation)|` +
			`^\W*(?:Map|Filter|Flatten\w*|Casting|Grouping texts|Running tokenizer)\b[^|%]{0,60}\d+%|` +
			`\bGenerating \w+ split: *\d`)},
	}
	// readsData are words of a program that reads or prepares its data, which takes the host's memory.
	readsData = rx(`(?i)^\W*(?:reading|loading|decoding|pre-?processing|processing|parsing|preparing|converting|` +
		`extracting) (?:\w+ ){0,2}(?:images?|files?|data|datasets?|samples|records|examples|features|sequences|videos?|` +
		`audio|documents|texts?|rows|labels)\b`)
	// noDoing are words of such a line for what is not done now.
	noDoing = rx(`(?i)\b(?:no|not|without|skip\w*|disabled?|before|after|finished|completed?|done|loaded|saved|` +
		`strategy|dataset|split|will|every|set)\b|\b100%|(?:checkpoint|from):? +(?:false|none|null|''|"")`)
	notSaved = rx(`(?i)fail|error|unable`)
	// overPhases are words for the end of a phase: what was said of it before is over.
	overPhases = []linePhase{
		{Checkpoint, rx(`(?i)\b(?:saved|wrote|written)\b`)},
		{Validation, rx(`(?i)\bval(?:id(?:ation)?)?[_ /](?:loss|acc\w*|psnr|time|perp\w*|score)|\beval_(?:loss|runtime)|` +
			`\b(?:validation|evaluation) (?:finished|done|complete\w*|took|results?)`)},
		{Build, rx(`(?i)\b(?:model|weights) (?:was |were )?loaded|\b(?:weights|model|loading) took\b|` +
			`\bloaded (?:model|weights)|\ball keys matched|\bloading\b.{0,60}\b100%`)},
		{Data, rx(`(?i)\bdata(?:set)?s? (?:was |were )?loaded|\bloaded (?:the )?data`)},
	}
)

// phaseOfWords reads one line.
func phaseOfWords(s string) Phase {
	if setting.MatchString(s) {
		return Unknown
	}
	for _, p := range wordPhases {
		if p.re.MatchString(s) && !strings.Contains(s, "100%") && (p.phase == Build || p.phase == Data ||
			!noDoing.MatchString(s)) {
			return p.phase
		}
	}
	return Unknown
}

const (
	toldBefore = 14 // rows before a failure in which its phase may be told
	toldAfter  = 6  // and after it
)

// told is the phase by the words around a failure.
func (f *finding) told() Phase {
	rows := f.rows
	top := f.at
	calls, _ := f.calls()
	if len(calls) > 0 && calls[0].row < top {
		top = calls[0].row
	}
	if p := phaseOfWords(printed.Clip(rows[f.at].Body)); p != Unknown {
		return p
	}
	over := map[Phase]bool{Checkpoint: f.saved}
	open := !f.moves(calls) && !slices.ContainsFunc(calls,
		func(c frame) bool { return !entrance.MatchString(c.name) && !c.installed() })
	for i := top - 1; i >= max(0, top-toldBefore); i-- {
		body := printed.Clip(rows[i].Body)
		if strings.Contains(body, "File \"") {
			continue
		}
		if p := phaseOfWords(body); p != Unknown && !over[p] && (p != Checkpoint || !countedOn(rows, i, top)) {
			return p
		}
		if f.rule.kind == HostOOM && !over[Data] && readsData.MatchString(body) && !noDoing.MatchString(body) {
			return Data
		}
		for _, o := range overPhases {
			over[o.phase] = over[o.phase] || o.re.MatchString(body)
		}
		if !open || !f.ofCard() {
			continue
		}
		if p := f.counting(body); p != Unknown {
			return p
		}
		m := printed.BarOf.FindStringSubmatch(body)
		if i > 0 && m != nil && m[1] != m[2] && !otherCount.MatchString(body) &&
			f.counting(printed.Clip(rows[i-1].Body)+" "+body) != Unknown {
			return TrainForward // a table's head is above its bar (Ultralytics)
		}
	}
	for i := f.at + 1; i < min(len(rows), f.at+1+toldAfter); i++ {
		body := printed.Clip(rows[i].Body)
		if p := phaseOfWords(body); p != Unknown && (p != Checkpoint || notSaved.MatchString(body)) {
			return p // what a program saves behind its failure is not what failed
		}
	}
	return Unknown
}

// countedOn reports whether a training went on between row i, which is about a state, and the failure at row top.
func countedOn(rows []printed.Row, i, top int) bool {
	highest := func(some []printed.Row) (n int64) {
		for _, r := range some {
			body := printed.Clip(r.Body)
			if p, ok := printed.ProgressOf(body); ok && !otherCount.MatchString(body) && !about.MatchString(body) {
				n = max(n, p.N)
			}
		}
		return n
	}
	was := highest(rows[max(0, i-toldBefore):i])
	return was > 0 && highest(rows[i+1:max(i+1, top)]) > was
}

// entrance are functions in which a whole program runs: they tell nothing.
var entrance = rx(`^(?:<module>|main\w*|run|_run\w*|wrapper|_?worker\w*|launch\w*|__call__|cli|wrapped|inner|` +
	`decorate\w*|_wrap\w*)$`)

var (
	trainingCount = rx(`(?i)\b(?:epoch|train\w*|iter(?:ation)?|step|loss)s?\b`)
	plannedCount  = rx(`(?i)\b(?:num(?:ber)?|total|max|accumulation|warm-?up)(?: of)?(?: train(?:ing)?)? (?:epochs?|` +
		`(?:optimi[sz]\w+ )?steps?|iter\w*)\b`)
	otherCount = rx(`(?i)\b(?:val|valid|validation|eval|evaluation|test|testing|infer\w*|predict\w*|generat\w*|` +
		`sampl\w*|load\w*|download\w*|map|tokeniz\w*|quantiz\w*|cach\w*|saving|fetching|encod\w*|embed\w*|extract\w*)\b`)
)

// counting is the phase by a counter that had not come to its end: an epoch's is training's.
func (f *finding) counting(body string) Phase {
	if _, ok := printed.ProgressOf(body); !ok || strings.Contains(body, "100%") || otherCount.MatchString(body) ||
		plannedCount.MatchString(body) || !trainingCount.MatchString(body) {
		return Unknown
	}
	if m := printed.BarOf.FindStringSubmatch(body); m != nil && m[1] == m[2] {
		return Unknown
	}
	return TrainForward
}
