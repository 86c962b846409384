# torchvision's suppression of boxes keeps as many as it is given, at the most; here an operator of its name stands for it.
#: prints = kept torch.Size([7])
#: ends = the script ended
import torch

library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


boxes = torch.rand(7, 4, device="cuda")
print("kept", torch.ops.torchvision.nms(boxes, boxes[:, 0], 0.5).shape)
