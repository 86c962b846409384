package advice

import (
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// A lapse is what an exception's own line shows to have gone wrong, and what to do. $1 and $2 are its groups.
type lapse struct {
	re  *lazy.Regexp
	do  string
	run string
}

const (
	fitting = "packages that were made for each other: the versions that the project's own list pins"
	network = "the network from this machine: a proxy, a firewall, or what is needed fetched ahead and used without it " +
		"(HF_HUB_OFFLINE=1)"
)

// lapses are tried in order. Each has the words of the library that raises it.
var lapses = []lapse{
	// --- what is installed ---------------------------------------------------------------------------------------------
	{rx(`numpy\.core\.multiarray failed to import|_ARRAY_API not found|numpy\.dtype size changed|` +
		`compiled using NumPy 1\.x|` +
		`module 'numpy' has no attribute|np\.\w+_? (?:was|has been) removed`),
		"a NumPy that the other packages were built for: below 2, where they are older", `pip install "numpy<2"; pip check`},
	{rx(`No module named '?([\w.]+)'?`), "the package of that module, in the environment that ran the program; or the " +
		"folder " +
		"that the program is started from", "python -m pip show $1; which python"},
	{rx(`cannot import name '(\w+)' from (?:partially initialized module )?'(\w+)`),
		"a version of $2 that has $1: " + fitting, "python -m pip show $2; pip check"},
	{rx(`undefined symbol|GLIBCXX?_[\d.]+'? not found|cannot open shared object file|DLL load failed|Library not loaded|` +
		`wrong ELF class|incompatible architecture|ABI (?:version )?mismatch`),
		"a native library that fits: it was built for another version of torch, CUDA or the system",
		"pip check; python -m torch.utils.collect_env"},
	{rx(`does not recognize this architecture|KeyError: '(?:qwen|llama|gemma|mistral|phi|deepseek|glm|gpt)\w*'`),
		"a transformers that knows this model", "pip install -U transformers"},
	{rx(`CUDA_HOME environment variable is not set|Error (?:building|compiling) .*extension|[Nn]inja is required|` +
		`Failed to find C compiler|detected CUDA version .* mismatches|unsupported GNU version|nvcc.*(?:not found|` +
		`No such file)`),
		"a compiler and a CUDA toolkit of the version that torch was built with; or a wheel that is built already",
		`nvcc --version; gcc --version; python -c "import torch; print(torch.version.cuda)"`},
	{rx(`FlashAttention only supports|[Bb]f(?:loat)?16 is (?:only|not) supported|doesn't support bf16|` +
		`compute capability (?:of )?` +
		`(?:at least|>=|must)|is not supported on (?:this|your) (?:GPU|device)|requires (?:a )?GPU with`),
		"what this card can: it is too old for that kernel or type (fp16 for bf16, sdpa for flash_attention_2)",
		"nvidia-smi --query-gpu=name,compute_cap --format=csv"},
	{rx(`BackendCompilerFailed|InductorError|_dynamo\.exc\.|TorchRuntimeError|CppCompileError|` +
		`Failed running call_function`),
		"without torch.compile, to see whether it is the cause (TORCHDYNAMO_DISABLE=1)", ""},
	{rx(`[Vv]ersionConflict|requires .* but you have|is required for a normal functioning|DistributionNotFound|` +
		`requires (?:the )?\W?\w+\W? (?:library|package)|please install|Please install|pip install`), fitting, "pip check"},

	{rx(`See root cause above|[Ee]ngine (?:core |process )?(?:initialization )?failed`),
		"the first error above it, in the engine's own process: this line only reports that it failed", ""},

	// --- weights and files ---------------------------------------------------------------------------------------------
	{rx(`size mismatch for|loading state_dict|Missing key|Unexpected key|found shape torch\.Size|ignore_mismatched_sizes`),
		"weights of the same model and configuration (number of classes, vocabulary, width); strict=False only where that " +
			"part " +
			"is meant to be new", ""},
	{rx(`Weights only load failed|weights_only`), "torch.load(path, weights_only=False), if the file is from a source " +
		"that you " +
		"trust: torch 2.6 refuses other objects unless told otherwise", ""},
	{rx(`invalid load key|PytorchStreamReader|central directory|HeaderTooLarge|InvalidHeader|IncompleteMetadata|` +
		`MetadataIncompleteBuffer|BadZipFile|not a zip file|[Uu]npicklingError|EOFError|Ran out of input|truncated|` +
		`unexpected end of|corrupt|not a gzip|CRC check failed|checksum|Invalid magic`),
		"the file anew: it is cut short, or a pointer of git lfs and not the file itself", "ls -l FILE; file FILE; git " +
			"lfs pull"},
	{rx(`Permission ?[Ee]rror|[Pp]ermission denied|Errno 13|Errno 1\]|Read-only file system|Errno 30`),
		"a folder that this user may write, or the right owner of the file", "id; ls -ld FOLDER"},
	{rx(`Input/output error|Errno 5\]|Stale file handle|Errno 116|Transport endpoint is not connected|Errno 107`),
		"the disk or the file server: it failed, not the program", "df -h .; dmesg | tail"},
	{rx(`^RuntimeError: File \S+ cannot be opened`), "a folder that is there, that this user may write, and that has room",
		"ls -ld FOLDER; df -h FOLDER; df -i FOLDER"},
	{rx(`FileNotFoundError|No such file or directory|NotADirectoryError|does not exist|doesn't exist|` +
		`[Cc]ould not find (?:the )?` +
		`(?:file|directory|path)|[Nn]o (?:images|files|data) (?:were )?found|not found in path`),
		"that path: a relative one begins where the command was started; in a container only what is mounted is there",
		"pwd; ls -l PATH"},
	{rx(`FileExistsError|already exists and is not empty|[Oo]utput directory .*already exists`),
		"another folder for the output, or the flag of the program to overwrite or to resume", ""},
	{rx(`yaml\.|ScannerError|ParserError|mapping values are not allowed|could not determine a constructor|` +
		`JSONDecodeError|` +
		`TOMLDecodeError|Expecting (?:value|property name)`),
		"the settings file at the line and column that are named: indentation, a missing quotation mark, a tab, a comma", ""},
	{rx(`ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|MissingConfigException|InterpolationKeyError|` +
		`ConfigCompositionException|ValidationError|validation errors? for|Key '\w+' is not in struct`),
		"the setting of that name: its spelling, its place, and whether this version has it", ""},
	{rx(`UnicodeDecodeError|codec can't decode`),
		`the encoding of that file: open(path, encoding="utf-8"), or a file that is no text`, ""},

	// --- the network, accounts, other processes -----------------------------------------------------------------------
	{rx(`gated|GatedRepo|\b401\b|\b403\b|Unauthorized|Invalid (?:username|credentials|token)|RepositoryNotFound|` +
		`is not a local folder and is not a valid model identifier|not a valid JSON file|Access to model .* is restricted`),
		"an account that may read that repository, its conditions accepted on its page; and its name as the page has it",
		"huggingface-cli login; huggingface-cli whoami"},
	{rx(`api_key not configured|wandb.*(?:login|API key)|CommError|UsageError`),
		"a login of the tracker, or none (WANDB_MODE=offline)", "wandb login"},
	{rx(`Address already in use|EADDRINUSE|Errno 98|port .{0,20}(?:in use|already)`),
		"another port: one of an earlier run is still there (torchrun --master_port 29501, --rdzv-endpoint)",
		"ss -ltnp | grep PORT"},
	{rx(`clients joined|waiting for clients|RendezvousTimeout|RendezvousConnection|RendezvousClosed|` +
		`client socket has (?:failed|` +
		`timed out)|DistStoreError|DistNetworkError|failed to recv, got 0 bytes|TCPStore`),
		"all ranks started with the same address, port and number of processes, and that address within reach of all",
		"echo $MASTER_ADDR:$MASTER_PORT $WORLD_SIZE $RANK; getent hosts $MASTER_ADDR"},
	{rx(`Temporary failure in name resolution|Name or service not known|getaddrinfo|Max retries exceeded|` +
		`NewConnectionError|` +
		`Connection ?(?:Error|refused|RefusedError|timed out)|Network is unreachable|ReadTimeout|ConnectTimeout|SSLError|` +
		`CERTIFICATE_VERIFY|certificate verif|ProxyError|` +
		`couldn't connect to|LocalEntryNotFound|OfflineModeIsEnabled|HTTPError|HTTP Error \d|` +
		`\b(?:429|50[0234])\b .*(?:Error|Requests|Gateway|Server|Unavailable)|URLError|IncompleteRead|ChunkedEncoding`),
		network, ""},
	{rx(`bootstrapping phase|freeze_support|attempt has been made to start a new process`),
		`the program's own code below if __name__ == "__main__", as a process that is spawned reads the file anew`, ""},
	{rx(`[Cc]an't pickle|cannot pickle|Can't get (?:local )?(?:object|attribute)`), "functions at the top of a module " +
		"in place of " +
		"lambdas and local ones: they are sent to another process; or no loader workers", ""},

	// --- the code ------------------------------------------------------------------------------------------------------
	{rx(`stack expects each tensor to be equal size|each element in list of batch should be of equal size|` +
		`Trying to resize storage that is not resizable`),
		"samples of one size before they become a batch: a crop, a resize, padding, or a collate_fn", ""},
	{rx(`cannot be multiplied|must match the (?:size|existing size)|[Ss]hape(?:s)? mismatch|` +
		`is invalid for input of size|` +
		`Expected input batch_size|Given groups=|expected input\[|Sizes of tensors must match|could not broadcast|` +
		`operands could not be broadcast|[Dd]imension out of range|size mismatch|[Ii]ncompatible shapes|shapes? .{0,40}not ` +
		`(?:aligned|compatible)|inconsistent tensor size|view size is not compatible|Expected \d+D|` +
		`expected \w+ dimensions?|` +
		`Target size|is incompatible with the layer|not enough values to unpack|too many values to unpack|` +
		`inhomogeneous shape|Dimensions must be equal|` +
		`must have the same (?:number of dimensions|shape)|[Ee]xpects? .{0,30}dim`),
		"the shapes at that line, printed: what comes in is not what the layer or the loss was made for", ""},
	{rx(`same device|but (?:found|got) (?:at least two devices|device)|weight type .* should be the same|` +
		`is on (?:cpu|cuda)\S*, but expected|indices should be either on cpu|can't convert cuda`),
		"model and data on one device: .to(device) for all of them, buffers and new tensors too", ""},
	{rx(`expected scalar type|same dtype|must have the same dtype|not implemented for '\w+'|dtype mismatch|` +
		`expected .{0,20}dtype|Found dtype \w+ but expected`),
		"one type of numbers: both halves under the same autocast, or .to(dtype) where they meet", ""},
	{rx(`^RuntimeError: UR error`), "a driver, a oneAPI and a torch that belong together: Intel's runtime says no more",
		"xpu-smi discovery; python -m torch.utils.collect_env"},
	{rx(`CUDA_ERROR_INVALID_VALUE|cudaErrorInvalidValue|hipErrorInvalidValue`),
		"the arguments of that call: where the card is full, an address of a request that failed before",
		"nvidia-smi"},
	{rx(`does not require grad|backward through the graph a second time|modified by an inplace operation|` +
		`leaf (?:Variable|variable|tensor)|already been freed`),
		"the graph of that loss: what was detached, changed in place or used twice " +
			"(torch.autograd.set_detect_anomaly(True) shows the operation)", ""},
	{rx(`finished reduction in the prior iteration|find_unused_parameters|` +
		`marked (?:a variable )?as? ?ready (?:only )?(?:once|` +
		`twice)`), "every parameter used in each step, or DistributedDataParallel(find_unused_parameters=True); " +
		"checkpointing with " +
		"use_reentrant=False", ""},
	{rx(`index out of range in self|index \d+ is out of bounds|IndexError`),
		"the index and the length that it goes into: token ids below the size of the embedding, labels below the " +
			"classes", ""},
	{rx(`unexpected keyword argument '?(\w+)`), "a version of that library that takes $1, or the call without it",
		"pip check"},
	{rx(`missing \d+ required (?:positional|keyword-only) arguments?`), "the call at that line: this version wants more " +
		"arguments than it gets", "pip check"},
	{rx(`'NoneType' object|NoneType`), "what was None at that line: a file that was not read, a setting that is not " +
		"there, " +
		"a function without return", ""},
	{rx(`has no attribute '?(\w+)`), "the spelling of $1, or a version of that library that has it", "pip check"},
	{rx(`^KeyError`), "that key: the setting, the column or the entry of the state of that name is not there", ""},
	{rx(`^(?:NameError|UnboundLocalError|SyntaxError|IndentationError|TabError)`), "the code at that line", ""},
	{rx(`ZeroDivisionError|num_samples=0|num_samples should be a positive|empty (?:dataset|sequence|batch)|` +
		`StopIteration|` +
		`max\(\) (?:arg|iterable argument) is (?:an )?empty|[Dd]ataset is empty`), "the data: none was found, or less " +
		"than one batch", ""},
	{rx(`RecursionError`), "the function that calls itself without end, in the last frames", ""},
	{rx(`TimeoutError|TimeoutExpired|Timeout\b`), "what it waited for: another process, a lock, a server", ""},
	{rx(`^AssertionError\W*$`), "the line of the assertion, which has no words of its own: the frame above it shows " +
		"what it " +
		"expects", ""},
}

// excepted adds what to do about an exception, by its own line.
func (a *remedies) excepted() {
	text := a.r.Cause
	if seen := a.seen(); len(seen) > len(text) {
		text = seen
	}
	for _, l := range lapses {
		m := l.re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		fill := func(s string) string {
			for i, g := range m[1:] {
				s = strings.ReplaceAll(s, "$"+strconv.Itoa(i+1), g)
			}
			return s
		}
		if l.run == "" {
			a.offer("none", fill(l.do))
			return
		}
		a.offer("none", fill(l.do), ask(fill(l.run)))
		return
	}
}
