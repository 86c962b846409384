"""Amounts of memory, in bytes. All prefixes are binary, as on the cards themselves."""

B = 1
KiB = 1024 * B
MiB = 1024 * KiB
GiB = 1024 * MiB
TiB = 1024 * GiB

_SUFFIXES = {"": B, "b": B, "byte": B, "bytes": B}
for _letter, _size in (("k", KiB), ("m", MiB), ("g", GiB), ("t", TiB)):
    _SUFFIXES.update({_letter: _size, _letter + "b": _size, _letter + "ib": _size})


def parse(text: str) -> int:
    """The bytes of "8GiB", "8 GB", "11.63g" or "8192". Raises ValueError for anything else."""
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    size = _SUFFIXES.get(stripped[len(number) :].strip().lower())
    if size is None or not number or number.strip("0123456789."):
        raise ValueError(f"{text!r} is not an amount of memory, such as 8GiB or 8192MiB")
    return int(number) * size if number.isdigit() else round(float(number) * size)


def show(amount: int) -> str:
    """The bytes for a person: "1.51 GiB", "512 B"."""
    for size, name in ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if abs(amount) >= size:
            value = amount / size
            digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
            return f"{value:.{digits}f} {name}"
    return f"{amount} B"
