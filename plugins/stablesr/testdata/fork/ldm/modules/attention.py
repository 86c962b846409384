# A stand-in of our own for attention without xformers.
class BasicTransformerBlock:
    def __init__(self, dim, checkpoint=True):
        pass


class SpatialTransformer:
    pass
