"""Trains a small diffusion model for super-resolution: python3 main.py --train --base configs/tiny.yaml --gpus 0, --name x"""

import argparse
import datetime
import glob
import os
import random
import signal

import torch

from tinysr import config as recipes
from tinysr.data import DataModuleFromConfig
from tinysr.trainer import Trainer


def boolean(text):
    if text.lower() in ("yes", "true", "t", "y", "1"):
        return True
    if text.lower() in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError("Boolean value expected.")


def number(text):
    value = recipes.yaml.load(text, recipes.Loader)
    return value if isinstance(value, (int, float)) else text


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--name", nargs="?", const=True, default="")
    parser.add_argument("-r", "--resume", nargs="?", const=True, default="")
    parser.add_argument("-b", "--base", nargs="*", default=[], help="recipes, laid over one another from left to right")
    parser.add_argument("-t", "--train", type=boolean, nargs="?", const=True, default=False)
    parser.add_argument("-s", "--seed", type=int, default=23)
    parser.add_argument("-f", "--postfix", default="")
    parser.add_argument("-l", "--logdir", default="./logs")
    parser.add_argument("--scale_lr", type=boolean, nargs="?", const=True, default=False)
    for name, default in TRAINER.items():
        parser.add_argument("--" + name, type=str if name == "gpus" else number, default=default)
    return parser


# The trainer's own arguments. A flag that says the default is as good as none: the recipe decides.
TRAINER = {"gpus": None, "accumulate_grad_batches": 1, "max_steps": None, "max_epochs": None, "num_sanity_val_steps": 2,
           "limit_train_batches": 1.0, "limit_val_batches": 1.0, "precision": 32}


def main():
    now = datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    opt, unknown = get_parser().parse_known_args()
    if opt.name and opt.resume:
        raise ValueError("-n/--name and -r/--resume cannot be given both")
    ckpt = None
    if opt.resume:
        if not os.path.exists(opt.resume):
            raise ValueError(f"Cannot find {opt.resume}")
        logdir = os.path.dirname(os.path.dirname(opt.resume)) if os.path.isfile(opt.resume) else opt.resume.rstrip("/")
        ckpt = opt.resume if os.path.isfile(opt.resume) else os.path.join(logdir, "checkpoints", "last.ckpt")
        opt.base = sorted(glob.glob(os.path.join(logdir, "configs", "*.yaml"))) + opt.base
    else:
        stem = os.path.splitext(os.path.basename(opt.base[0]))[0] if opt.base else ""
        logdir = os.path.join(opt.logdir, now + ("_" + (opt.name or stem) if opt.name or stem else "") + opt.postfix)
    ckptdir, cfgdir = os.path.join(logdir, "checkpoints"), os.path.join(logdir, "configs")
    random.seed(opt.seed)
    torch.manual_seed(opt.seed)
    print(f"Global seed set to {opt.seed}")

    config = {}
    for path in opt.base:
        config = recipes.merge(config, recipes.load(path))
    config = recipes.merge(config, recipes.dotlist(unknown))
    lightning = config.pop("lightning", {})
    trainer = lightning.setdefault("trainer", {})
    for name, default in TRAINER.items():
        if getattr(opt, name) != default:
            trainer[name] = getattr(opt, name)
    if "gpus" in trainer:
        print(f"Running on GPUs {trainer['gpus']}")
    device = torch.device("cuda" if "," in str(trainer.get("gpus")) and torch.cuda.is_available() else "cpu")
    if device.type == "cuda" and os.environ.get("TINYSR_MEMORY_FRACTION"):  # makes a large card small
        torch.cuda.set_per_process_memory_fraction(float(os.environ["TINYSR_MEMORY_FRACTION"]))

    model = recipes.build(config["model"])
    model.configs = config
    print(f"Merged modelckpt-cfg: \n{ {'params': {'dirpath': ckptdir, 'save_last': True}} }")
    print(f"GPU available: {torch.cuda.is_available()}, used: {device.type == 'cuda'}")
    data = DataModuleFromConfig(**config["data"]["params"])
    print("#### Data #####")
    for name, dataset in data.datasets.items():
        print(f"{name}, {type(dataset).__name__}, {len(dataset)}")

    accumulate = trainer.setdefault("accumulate_grad_batches", 1)
    print(f"accumulate_grad_batches = {accumulate}")
    rate, batch = config["model"]["base_learning_rate"], config["data"]["params"]["batch_size"]
    model.learning_rate = rate * accumulate * batch if opt.scale_lr else rate
    print(f"Setting learning rate to {model.learning_rate:.2e}" + (
        f" = {accumulate} (accumulate_grad_batches) * 1 (num_gpus) * {batch} (batchsize) * {rate:.2e} (base_lr)" if opt.scale_lr else ""))

    if not opt.train:
        return
    os.makedirs(ckptdir, exist_ok=True)
    os.makedirs(cfgdir, exist_ok=True)
    for title, name, part in (("Project", "project", config), ("Lightning", "lightning", {"lightning": lightning})):
        print(f"{title} config")
        print(recipes.dump(part))
        with open(os.path.join(cfgdir, f"{now}-{name}.yaml"), "w") as f:
            f.write(recipes.dump(part))
    images = lightning.get("callbacks", {}).get("image_logger", {}).get("params", {})
    every = lightning.get("modelcheckpoint", {}).get("params", {}).get("every_n_train_steps")
    model.to(device)
    loop = Trainer(model, data, trainer, logdir, 0 if images.get("disabled") else images.get("batch_frequency", 750), every)
    if ckpt:
        loop.restore(ckpt)
    signal.signal(signal.SIGUSR1, lambda *_: loop.summon())
    try:
        loop.fit()
    except Exception:
        loop.summon()
        raise


if __name__ == "__main__":
    main()
