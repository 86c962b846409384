#!/usr/bin/env python3
"""Pretraining by momentum contrast. The settings are a class: see the import in src/training/train_moco.py."""
from src.training.train_moco import main

if __name__ == "__main__":
    main()
