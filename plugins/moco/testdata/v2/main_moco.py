import argparse

import torch
import torch.multiprocessing as mp

import moco.builder

parser = argparse.ArgumentParser()
parser.add_argument("data", metavar="DIR")
parser.add_argument("-a", "--arch", default="resnet50")
parser.add_argument("-j", "--workers", default=32, type=int)
parser.add_argument("--epochs", default=200, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int, help="of this node's GPUs together (all of them)")
parser.add_argument("--lr", "--learning-rate", default=0.03, type=float, dest="lr")
parser.add_argument("--schedule", default=[120, 160], nargs="*", type=int)
parser.add_argument("-p", "--print-freq", default=10, type=int)
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--rank", default=-1, type=int)
parser.add_argument("--dist-url", default="tcp://224.66.41.62:23456")
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--moco-dim", default=128, type=int)
parser.add_argument("--moco-k", default=65536, type=int)
parser.add_argument("--mlp", action="store_true")
parser.add_argument("--cos", action="store_true")


def main():
    args = parser.parse_args()
    ngpus_per_node = torch.cuda.device_count()
    mp.spawn(worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))


def worker(gpu, ngpus_per_node, args):
    args.batch_size = int(args.batch_size / ngpus_per_node)
    return moco.builder.MoCo(args.moco_dim, args.moco_k)
