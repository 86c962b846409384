import timm
from torchvision import models


def get_backbone(name="resnet50"):
    if name == "resnet50":
        return models.resnet50(weights=None)
    elif name == "vit_small":
        return timm.create_model("vit_small_patch16_224", num_classes=0)
    elif name == "vit_base":
        return timm.create_model("vit_base_patch16_224", num_classes=0)
