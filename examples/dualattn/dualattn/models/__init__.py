from .dual_vit import DualCrossAttentionViT

__all__ = ["DualCrossAttentionViT"]
