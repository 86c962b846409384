import argparse
import os

import torch
import torch.multiprocessing as mp

from src.config_low import Config
from src.datasets.images import Images
from src.models.backbones import get_backbone
from src.models.moco import MoCoV3
from src.saving import save_checkpoint


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--dist-url', default='tcp://127.0.0.1:23456', type=str)
    parser.add_argument('--world-size', default=1, type=int)
    parser.add_argument('--rank', default=0, type=int)
    parser.add_argument('--multiprocessing-distributed', action='store_true')
    return parser.parse_args()


def main():
    args = get_args()
    config = Config()
    if hasattr(config, 'print_vram_estimate'):
        config.print_vram_estimate()
    ngpus_per_node = torch.cuda.device_count()
    if args.multiprocessing_distributed:
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args, config))
    else:
        main_worker(0, ngpus_per_node, args, config)


def main_worker(gpu, ngpus_per_node, args, config):
    model = MoCoV3(
        lambda: get_backbone(config.backbone, stop_grad_conv1=True), dim=config.feature_dim, mlp_dim=config.mlp_dim,
        use_queue=config.use_queue, queue_size=config.queue_size,
    )
    if args.multiprocessing_distributed:
        config.batch_size = int(config.batch_size / ngpus_per_node)
    if config.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate)
    else:
        optimizer = torch.optim.SGD(model.parameters(), config.learning_rate)
    scaler = torch.cuda.amp.GradScaler(enabled=config.use_amp)
    data = Images(config.dataset_path, config.image_size)
    loader = torch.utils.data.DataLoader(data, batch_size=config.batch_size, drop_last=True)
    for epoch in range(config.epochs):
        for i, (x1, x2) in enumerate(loader):
            with torch.cuda.amp.autocast(enabled=config.use_amp):
                loss = model(x1, x2, config.momentum)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        save_checkpoint(model, os.path.join(config.checkpoint_dir, config.get_experiment_tag()))
