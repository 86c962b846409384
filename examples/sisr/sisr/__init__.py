"""A small super-resolution trainer that behaves like traiNNer-redux from the outside."""
