

# ---- what the parts of the hook share: launch writes it at the end of each

def out_of_memory(e):
    """1 if an exception is an allocator's. Until torch 1.12, and on a CPU, it is a plain RuntimeError."""
    if type(e).__name__ in ("OutOfMemoryError", "MemoryError"):
        return 1
    text = e.args[0] if isinstance(e, RuntimeError) and e.args else ""
    return int(isinstance(text, str) and ("out of memory" in text or "can't allocate memory" in text))


def at_exit(f):
    """Registers f, which leaves the module where the program would find it only where a Python needs that: before 3.10 its
    functions are the module's, and not the interpreter's."""
    there = "atexit" in sys.modules
    __import__("atexit").register(f)
    if not there and sys.version_info >= (3, 10):
        del sys.modules["atexit"]
