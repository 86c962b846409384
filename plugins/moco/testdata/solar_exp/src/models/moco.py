class MoCoV3:
    def _update_momentum_encoder(self, m):
        pass
