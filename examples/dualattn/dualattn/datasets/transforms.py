"""What is done to an image before the network sees it."""

import torch
import torch.nn.functional as F
from torch import Tensor


class RecognitionTransforms:
    def __init__(self, training: bool, input_size: int, resize_size: int) -> None:
        self.training, self.input_size, self.resize_size = training, input_size, resize_size

    def __call__(self, image: Tensor) -> Tensor:
        size = (self.resize_size, self.resize_size)
        image = F.interpolate(image.unsqueeze(0), size=size, mode="bilinear", align_corners=False)[0]
        room = self.resize_size - self.input_size
        top, left = (torch.randint(room + 1, (2,)).tolist()) if self.training else (room // 2, room // 2)
        image = image[:, top : top + self.input_size, left : left + self.input_size]
        return image.flip(-1) if self.training and torch.rand(()) < 0.5 else image


def get_transforms(training: bool) -> RecognitionTransforms:
    # The sizes stand here and in the settings: both must be changed for another input.
    return RecognitionTransforms(training, input_size=96, resize_size=112)
