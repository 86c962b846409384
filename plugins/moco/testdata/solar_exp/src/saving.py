def save_checkpoint(state, folder):
    pass


def load_checkpoint(model, path):
    pass
