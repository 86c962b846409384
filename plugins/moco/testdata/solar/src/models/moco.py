import torch


class MoCoV3:
    def _update_momentum_encoder(self, m):
        pass

    def _dequeue_and_enqueue(self, keys):
        """The number of keys need not divide the queue: assert self.K % batch_size == 0 is gone."""
        rest = self.K - int(self.queue_ptr)
        self.queue[:, :len(keys) - rest] = keys[rest:].T

    def forward(self, k1, k2):
        self._dequeue_and_enqueue(torch.cat([k1, k2], dim=0))
