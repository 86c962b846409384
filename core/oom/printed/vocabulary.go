package printed

// Words open an excerpt; the rules then read it. They are in lower case.
var (
	MemoryWords = []string{
		"out of memory", "out-of-memory", "outofmemory", "out_of_memory", "tried to allocate", "total capac",
		"allocated by pytorch", "reserved in total by", "alloc_failed", "resource_exhausted", "resource exhausted",
		"resourceexhausted", "oom when", "oom-kill", "oom_kill", "oomkill", "oom killed", "from oom", "oom in ", "to oom",
		"oom detected", "cuda oom", "out_of_me", "t allocate memory", "not enough memory", "cannot allocate", "unable to " +
			"allocate",
		"memoryerror", "bad_alloc", "shared memory", "killed", "sigkill", "failed to cuda calloc", "cuda failure 2",
		"cuda failure 'out",
		"low on memory", "low on resource", "memory limit", "memlimit", "memory usage", "internal assert failed",
		"memory allocation of", "memory allocation error", "heap space", "failed to allocate", "allocation of size",
		"could not be allocated", "could not allocate",
		"outofdevicememory", "outofhostmemory", "device_memory", "host_memory", "out_of_resources", "insufficient memory",
		"no executable batch", "all available ram", "more memory than is available", "paging file is too small",
		"exceeding memory limits", "memory budget",
		"over memory limit", "would exceed allowed memory", "allocation failure", "greater than the maximum", "allocation " +
			"failed", "alloc failed", "microbatch size will", "trying batch size",
		"exceeded limit", "resource limit", "hard limit", "hbm capacity", "oomd", "earlyoom", "with oom on", "] stats:",
		"in-use chunks:",
		"total_region_allocated", "dst tensor is not",
		"memory pressure", "cuda out of", "hip out of", "allocation on device", "free memory on device",
		"no available memory", "out of gpu", "out of cuda", "out of vram", "out of device", "out of video", "memory is " +
			"overflow",
		"memory isn't enough", "code is 207001", "el0004", "memory exhausted", "memory is exhausted", "[malloc",
		"insufficient gpu", "invalid buffer size", "8007000e", "killedworker", "insufficient device", "insufficient " +
			"cuda", "kv cache memory", "bad allocation", "total mem size",
		"memory resource limit", "cuerror(2", "on hold", "hold reason", "hostalloc", "enforced h_", "chunks by size",
		"mem-fraction-static", "requires more system", "excessive memory", "memalign",
	}
	FailureWords = []string{
		"traceback", "error:", "exception:", "keyboardinterrupt", "sigterm", "sigint",
		"cancelled", "preempt", "aborted", "segmentation fault", "core dumped", "fatal", "timed out", "timeout:",
		"out of resource", "outofresources", "cuda error", "cublas_status", "cudnn_status",
		"nccl warn", "nccl error", "nccl operations", "ncclunhandled", "ncclsystem", "ncclinternal", "assert",
		"exitcode", "exit code", "return code", "exit status", "too many open files", "no space left", "quota exceeded",
		"terminated", "nan/inf", "is nan", "loss is inf", "loss: nan", "nan loss", "non-finite", "exited unexpectedly",
		"user interrupted",
		"time limit", "state: timeout", " timeout ", "node_fail", "bus error", "systemexit",
		"eoferror", "notimplementederror", // the two are often raised without a word
		"sighup", "hangup", "death signal", "unexpectedly", "common causes", "root causes", "has died", "died with",
		"items of ancdata", "exited with code", "check failed", "check failure", "terminate called",
		"kernel crashed", "kernel died", "have died", "kernel has died",
		"exc_type", // structlog's name for an exception's, in JSON
		// of faults (faults.go)
		"xid (", "fallen off", "gpu is lost", "gsp rpc", "uncorrect", "no kernel image", "invalid device", "kernel image " +
			"is inv",
		"gpu architecture", "gpu arch", "unsupported toolchain", "cudaerror", "cuda_error_", "hiperror", "hsa_status_error",
		"cublas_", "rocblas_status", "hipblas_status", "cusolver_status", "cusparse_status", "miopen", "illegal memory",
		"misaligned address", "launch failure", "too many resources", "too much shared", "infinite or nan", "too many " +
			"blocks", "memory access fault",
		"no valid triton", "driver/library version", "display driver", "forward compatibility", "version is insufficient",
		"unsatisfied condition", "not yet initialized", "fabric manager", "busy or unavailable", "mps client",
		"select device driver", "nvidia-smi has failed", "device handle for", "duplicate gpu", "device_lost",
		"devicelost", "device_removed", "device_hung", "memory space", "command buffer",
		"gputimeout", "load library", "load symbol", "unable to load any", "gpu hang", "gpu reset", "failed assertion",
		"terminating", "abort trap", "zsh: ", "sigsegv", "sigabrt", "sigbus", "sigill", "sigfpe", "sigtrap", "trace trap",
		"illegal instruction", "illegal hardware", "floating point exc", "ggml_a", "panicked at", "smashing", "free(): ",
		"double free", "malloc(): ", "realloc(): ", "corrupted size", "corrupted double", "munmap_chunk",
		"malloc_consolidate",
		"overflowed its stack", "llvm error", "breakpoint trap", "being freed", "segfault at", "bad_access", "xc000",
		"xc00000fd",
		"-10737", "3221225477", "library not loaded", "loading shared libraries", "unexpected argument", "unrecognized " +
			"option",
		"check failed", "signal: ", "*** ", "signal sig", "badness", "cudnn library", "已放弃", "中止 (", "abgebrochen (",
		"abandon", "abortado (", "annullato (",
		"Аварийный", "przerwane (", "段错误", "区段错误", "speicherzugriffsfehler", "erreur de segmentation",
		"violación de segmento", "errore di segmentazione", "falha de segmentação", "Ошибка сегментирования",
		"naruszenie ochrony", "세그멘테이션",
		"hccl", "err02200", "cuerror(701", "signaled to", "runner process", "runner terminated",
		"could not override", "size mismatch for", "key(s) in state_dict", "command not found", ": not found", "can't " +
			"open file",
		"executable file not", "unknown command", "deleted at request",
		"term_runlimit", "term_cpulimit", "term_threadlimit", "term_processlimit", "term_preempt", "term_owner",
		"term_admin", "term_force", "unhandled system error", "userscripterror",
		"be on the same device", "mat1 and mat2", "must match the size", "not require grad", "for gradient computation",
		"through the graph a", "finished reduction in", "expected scalar type",
	}
	FrameWords = []string{"  file \"", "❱"}
)

// Early are words of a program that ends before its last step. They count only after the last one, so that a setting of
// that name is none. Each has a literal, without which it would be tried on every line.
var Early = []string{
	`(?i)\bearly[ _-]?stop(?:ped|ping)?(?:[^:=\w]|[:=]\s*[^\s\d]|$)`,
	`(?i)\bstop(?:ped|ping)\b.{0,40}\bearly\b`,
	`(?i)\bpatience\b.{0,60}\b(?:reached|exceeded|exhausted|ran out|is over)\b`,
	`(?i)\bno improvement\b.{0,80}\bstop`,
	`(?i)\bstopping (?:the )?training\b`,
	`(?i)\b(?:has |have |training )converged\b`,
	`(?i)^\W*converged\b`,
	`(?i)\bconverged (?:at|after|in)\b`,
	`(?i)\bstopped: .{0,60}\breached\b`,
	`(?i)\b(?:target|goal|max_steps|max_epochs)\b.{0,60}\breached\b`,
	`(?i)\breached\b.{0,20}\b(?:target|goal|desired|max(?:imum)?)\b`,
	`(?i)\b(?:target|goal)\b.{0,40}\bachieved\b`,
	`(?i)\bno improvement\b.{0,80}\b(?:halt|exit|terminat|end|quit)`,
	`(?i)\bstopped improving\b`,
	`(?i)\btrial\b.{0,30}\bpruned\b`,
	`(?i)\btime (?:limit|budget)\b.{0,40}\b(?:reached|exceeded|is over)\b`,
	`(?i)\bmax(?:imum)?[ _]?(?:train(?:ing)?[ _])?time\b.{0,40}\b(?:reached|exceeded)\b`,
}
