"""A small dual cross-attention vision transformer, its settings and its synthetic data."""
