"""A few training steps as timm's benchmark.py ran them in July 2022, with the timm and the torch that are here.

    train_timm.py MODEL BATCH SIZE

What decides the memory is that of its commit 0dbd9352 (`--bench train --amp --channels-last`) and of torch 1.12:
autocast to float16 around the backward too, without a scaler; SGD with Nesterov's momentum, tensor by tensor
(`foreach` came as the default with torch 2.0); gradients are set to zero and stay (`set_to_none` is the default from
torch 2.0 on); attention is not fused.
"""
import os
import sys

os.environ["TIMM_FUSED_ATTN"] = "0"

import timm  # noqa: E402
import torch  # noqa: E402

torch.backends.cudnn.benchmark = True


def build(name, size):
    """The model; at another size than its own where it depends on that."""
    try:
        model = timm.create_model(name)
    except RuntimeError:  # an older name, of weights whose tag is gone: the architecture is there
        name = name.rpartition("_")[0]
        model = timm.create_model(name)
    if model.default_cfg["input_size"][-1] != size:
        try:
            model = timm.create_model(name, img_size=size)
        except TypeError:  # a network of convolutions takes any
            pass
    return model


def main():
    name, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model = build(name, size)
    model = model.to(device="cuda", memory_format=torch.channels_last)
    model.train()
    loss = torch.nn.CrossEntropyLoss().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, nesterov=True, foreach=False)
    inputs = torch.randn((batch, 3, size, size), device="cuda").contiguous(memory_format=torch.channels_last)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda"):
            output = model(inputs)
            if isinstance(output, tuple):
                output = output[0]
            target = torch.empty((batch,), device="cuda", dtype=torch.long).random_(model.num_classes)
            loss(output, target).backward()
        optimizer.step()


main()
