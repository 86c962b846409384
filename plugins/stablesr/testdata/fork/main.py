# A stand-in of our own for a latent-diffusion fork's entry point: what the plugin looks for in its text, and no more.
import argparse
import sys

sys.path.append("./elsewhere")  # where no ldm is


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--name", nargs="?", const=True, default="")
    parser.add_argument("-b", "--base", nargs="*", default=[])
    parser.add_argument("--scale_lr", nargs="?", const=True, default=False)
    parser.add_argument("--actual_resume", type=str, required=True)
    parser.add_argument("--finetune_from", nargs="?", default="")
    parser.add_argument("--quick", action="store_true")
    return parser


opt, unknown = get_parser().parse_known_args()
accumulate = lightning_config.trainer.accumulate_grad_batches  # noqa: F821
callbacks = {"image_logger": {"target": "main.ImageLogger"}}
