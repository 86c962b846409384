# DeepSpeed, of which here a module of the same name stands: it is not followed.
#: ends = DeepSpeed is not followed
#: failed = true
import os
import sys

import torch

os.makedirs("lib/deepspeed")
with open("lib/deepspeed/__init__.py", "w") as f:
    f.write("def initialize(model=None, **k):\n    return model, None, None, None\n")
sys.path.insert(0, "lib")
import deepspeed  # noqa: E402

engine, *_ = deepspeed.initialize(model=torch.nn.Linear(8, 8).cuda())
