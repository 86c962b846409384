import argparse

import torch
import torch.multiprocessing as mp

parser = argparse.ArgumentParser()
parser.add_argument('data', metavar='DIR')
parser.add_argument('-a', '--arch', default='resnet50')
parser.add_argument('--epochs', default=100, type=int)
parser.add_argument('-b', '--batch-size', default=4096, type=int,
                    help='of all GPUs of all nodes')
parser.add_argument('--lr', '--learning-rate', default=0.6, type=float, dest='lr')
parser.add_argument('-p', '--print-freq', default=10, type=int)
parser.add_argument('--resume', default='', type=str)
parser.add_argument('--world-size', default=-1, type=int)
parser.add_argument('--rank', default=-1, type=int)
parser.add_argument('--dist-url', default='tcp://224.66.41.62:23456')
parser.add_argument('--gpu', default=None, type=int)
parser.add_argument('--multiprocessing-distributed', action='store_true')
parser.add_argument('--moco-dim', default=256, type=int)
parser.add_argument('--moco-mlp-dim', default=4096, type=int)
parser.add_argument('--stop-grad-conv1', action='store_true')
parser.add_argument('--optimizer', default='lars', choices=['lars', 'adamw'])


def worker(gpu, ngpus_per_node, args):
    args.lr = args.lr * args.batch_size / 256
    args.batch_size = int(args.batch_size / args.world_size)
    with torch.cuda.amp.autocast(True):
        pass


def main():
    args = parser.parse_args()
    mp.spawn(worker, nprocs=torch.cuda.device_count(), args=(1, args))
