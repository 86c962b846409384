# A stand-in of our own for the edge fork's entry point.
import argparse
import os
import subprocess
import sys

os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:128'
parser = argparse.ArgumentParser()
parser.add_argument("--config", type=str, default="configs/edge.yaml", help="recipe")
parser.add_argument("--gpus", type=str, default="0")
parser.add_argument("--name", type=str, default="stablesr_edge")
parser.add_argument("--resume", type=str, default="")
parser.add_argument("--scale_lr", action="store_true")
parser.add_argument("--test_only", action="store_true")
subprocess.run([sys.executable, "test_edge_processing.py"])
