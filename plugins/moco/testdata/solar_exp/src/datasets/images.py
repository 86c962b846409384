import os

from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self, root_dir, size):
        self.folder = os.path.join(root_dir, "original")
        self.names = [n for n in os.listdir(self.folder) if n.lower().endswith(('.png', '.jpg', '.jpeg'))]
