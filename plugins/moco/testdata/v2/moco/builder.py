class MoCo:
    def _dequeue_and_enqueue(self, keys):
        # every step must leave the pointer where a whole step fits
        batch_size = keys.shape[0]
        assert self.K % batch_size == 0
