"""The trainer's own network as the formula. launch runs this file in the trainer's Python, never in the plugin's."""

import torch
from model import Net  # of the project: the script's folder is on the path, as it is for the script
from torch.nn.functional import cross_entropy


def build(config):
    net = Net(config["width"], config["depth"])
    x = torch.empty(config["batch"], config["tokens"], 64)
    y = torch.empty(config["batch"] * config["tokens"], dtype=torch.long)

    def loss(out):
        return cross_entropy(out.flatten(0, 1), y.to(out.device))

    return {"module": net, "inputs": x, "loss": loss}
