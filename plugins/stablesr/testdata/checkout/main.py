# A stand-in of our own for StableSR's entry point: what the plugin looks for in its text, and no more.
import argparse


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--name", nargs="?", const=True, default="")
    parser.add_argument("-b", "--base", nargs="*", default=[])
    parser.add_argument("--scale_lr", nargs="?", const=True, default=False)
    return parser


opt, unknown = get_parser().parse_known_args()
ngpu = len(lightning_config.trainer.gpus.strip(",").split(","))  # noqa: F821
logger = "pytorch_lightning.loggers.WandbLogger"
accumulate = lightning_config.trainer.accumulate_grad_batches  # noqa: F821
