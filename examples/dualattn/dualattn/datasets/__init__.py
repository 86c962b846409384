from .synthetic import make_loaders

__all__ = ["make_loaders"]
