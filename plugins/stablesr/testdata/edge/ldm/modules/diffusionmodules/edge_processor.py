# A stand-in of our own: the widths by which the plugin tells the processor of cea3b81.
class EdgeMapProcessor:
    def __init__(self, nn):
        self.initial_conv = nn.Sequential(nn.Conv2d(3, 64, 4, stride=2, padding=1))
        self.stage1_layers = [nn.Conv2d(64 if i == 0 else 256, 256, 3, padding=1) for i in range(3)]
        stage2_channels = [128, 64, 16, 4]
        self.stage2_layers = [nn.Conv2d(256, c, 4, stride=2) for c in stage2_channels]
