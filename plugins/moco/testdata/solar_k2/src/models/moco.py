class MoCoV3:
    def _update_momentum_encoder(self, m):
        pass

    def _dequeue_and_enqueue(self, keys):
        batch_size = keys.shape[0]
        assert self.queue_size % batch_size == 0, f"{self.queue_size} keys and {batch_size} a step"

    def forward(self, k1, k2):
        self._dequeue_and_enqueue(k2)
