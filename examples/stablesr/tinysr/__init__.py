"""A small diffusion super-resolution trainer: see README.md."""
