"""Momentum contrast with two crops, a predictor, and a queue of keys."""
import copy
from typing import Callable, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers without bias, each with a batch norm, and a ReLU between them."""
    layers: list = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        if i > 0:
            layers.append(nn.ReLU(inplace=True))
        layers += [nn.Linear(a, b, bias=False), nn.BatchNorm1d(b)]
    return nn.Sequential(*layers)


class MoCo(nn.Module):
    def __init__(
        self, backbone: Callable[[], Tuple[nn.Module, int]], dim: int, mlp_dim: int, temperature: float, length: int
    ) -> None:
        super().__init__()
        self.temperature, self.length = temperature, length
        self.base_model, features = backbone()
        self.projector_q = mlp(features, mlp_dim, mlp_dim, dim)
        self.predictor = mlp(dim, mlp_dim, dim)
        self.base_model_k = copy.deepcopy(self.base_model)
        self.projector_k = copy.deepcopy(self.projector_q)
        for p in [*self.base_model_k.parameters(), *self.projector_k.parameters()]:
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, length), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _update_momentum(self, m: float) -> None:
        for q, k in ((self.base_model, self.base_model_k), (self.projector_q, self.projector_k)):
            for param_q, param_k in zip(q.parameters(), k.parameters()):
                param_k.data = param_k.data * m + param_q.data * (1.0 - m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys: torch.Tensor) -> None:
        """Writes keys behind the last, and round the end: their number need not divide the queue's length."""
        keys = gathered(keys)
        at = int(self.queue_ptr)
        where = (at + torch.arange(len(keys), device=keys.device)) % self.length
        self.queue[:, where] = keys.T.to(self.queue.dtype)
        self.queue_ptr[0] = (at + len(keys)) % self.length

    def contrastive_loss(self, q: torch.Tensor, k: torch.Tensor, use_queue: bool) -> torch.Tensor:
        """Each query's own key is to be nearer than all others: of the queue, or of the batch."""
        q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
        if use_queue:
            own = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
            others = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
            logits = torch.cat([own, others], dim=1)
            labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        else:
            logits = torch.einsum("nc,mc->nm", [q, k])
            labels = torch.arange(len(logits), device=logits.device)
        logits /= self.temperature
        return F.cross_entropy(logits, labels)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor, m: float, use_queue: bool) -> torch.Tensor:
        self._update_momentum(m)
        q1 = self.predictor(self.projector_q(self.base_model(x1)))
        q2 = self.predictor(self.projector_q(self.base_model(x2)))
        with torch.no_grad():
            k1 = self.projector_k(self.base_model_k(x1))
            k2 = self.projector_k(self.base_model_k(x2))
            k1_unit, k2_unit = F.normalize(k1, dim=1), F.normalize(k2, dim=1)
        loss = self.contrastive_loss(q1, k2, use_queue) + self.contrastive_loss(q2, k1, use_queue)
        if use_queue:
            self._dequeue_and_enqueue(torch.cat([k1_unit, k2_unit], dim=0))
        return loss


@torch.no_grad()
def gathered(x: torch.Tensor) -> torch.Tensor:
    """x of all processes."""
    if not dist.is_initialized():
        return x
    parts = [torch.ones_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts, dim=0)
