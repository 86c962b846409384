from torchvision import models


def get_backbone(name="resnet50", stop_grad_conv1=True):
    if name == "resnet50":
        return models.resnet50(weights=None)
    if name == "vit_small":
        # no such network there: the base one is taken
        return models.vit_b_16(weights=None)
    elif name == "vit_base":
        return models.vit_b_16(weights=None)
