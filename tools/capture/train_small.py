"""Small trainings of many kinds, on a card where there is one, else on the CPU: train_small.py KIND."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Images(Dataset):
    """Noise, made when it is read."""

    def __init__(self, size, classes=10, masks=False):
        self.size, self.classes, self.masks = size, classes, masks

    def __len__(self):
        return 48

    def __getitem__(self, i):
        x = torch.randn(3, self.size, self.size)
        return x, torch.randint(self.classes, (self.size, self.size) if self.masks else ())


class Tokens(Images):
    def __getitem__(self, i):
        x = torch.randint(500, (self.size,))
        return {"input_ids": x, "labels": x}


def loop(model, data, optimizer, loss, batch=8, validate=False):
    """Three steps, and a validation."""
    model.to(DEVICE).train()
    optimizer = optimizer(model.parameters())
    for _, (x, y) in zip(range(3), DataLoader(data, batch, shuffle=True)):
        x, y = x.to(DEVICE), y.to(DEVICE)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    if validate:
        model.eval()
        with torch.no_grad():
            for _, (x, y) in zip(range(2), DataLoader(data, 4 * batch)):
                loss(model(x.to(DEVICE)), y.to(DEVICE)).item()


def sgd(params):
    return torch.optim.SGD(params, 0.1, momentum=0.9, weight_decay=1e-4)


def adamw(params):
    return torch.optim.AdamW(params, 1e-3)


def resnet():
    import torchvision
    loop(torchvision.models.resnet18(num_classes=10), Images(96), sgd, F.cross_entropy, validate=True)


def segmentation():
    import torchvision
    net = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5)
    loop(net, Images(64, 5, masks=True), sgd, lambda out, y: F.cross_entropy(out["out"], y), batch=4)


def efficientnet():
    import timm
    loop(timm.create_model("efficientnet_b0", num_classes=10), Images(96), adamw, F.cross_entropy)


def swin():
    import timm
    net = timm.create_model("swin_tiny_patch4_window7_224", img_size=112, num_classes=10, drop_path_rate=0.0)
    loop(net, Images(112), adamw, F.cross_entropy)


def gpt2():
    """An own loop with accumulation, clipping and a schedule."""
    from transformers import GPT2Config, GPT2LMHeadModel
    net = GPT2LMHeadModel(GPT2Config(vocab_size=5000, n_embd=128, n_layer=4, n_head=4, n_positions=128, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")).to(DEVICE)
    optimizer = adamw(net.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for i, batch in zip(range(6), DataLoader(Tokens(128), 8)):
        loss = net(**{k: v.to(DEVICE) for k, v in batch.items()}).loss / 2
        loss.backward()
        if i % 2:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def llama(adapters=False):
    from transformers import LlamaConfig, LlamaForCausalLM
    net = LlamaForCausalLM(LlamaConfig(vocab_size=5000, hidden_size=128, intermediate_size=352, num_hidden_layers=4,
                                       num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager"))
    if adapters:
        from peft import LoraConfig, get_peft_model
        net = get_peft_model(net, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    return net


def trainer(net=None):
    """transformers' Trainer."""
    from transformers import Trainer, TrainingArguments
    args = TrainingArguments("/tmp/really", per_device_train_batch_size=8, max_steps=4, report_to="none",
                             save_strategy="no", dataloader_pin_memory=False, optim="adamw_torch")
    Trainer(net or llama(), args, train_dataset=Tokens(128)).train()


def lora():
    trainer(llama(adapters=True))


def gan():
    """Two networks, two optimizers."""
    def up(a, b):
        return nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))

    def down(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True))

    g = nn.Sequential(nn.ConvTranspose2d(64, 256, 4), up(256, 128), up(128, 64), nn.ConvTranspose2d(64, 3, 4, 2, 1),
                      nn.Tanh()).to(DEVICE)
    d = nn.Sequential(down(3, 64), down(64, 128), down(128, 256), nn.Conv2d(256, 1, 4), nn.Flatten(0)).to(DEVICE)
    og, od = (torch.optim.Adam(m.parameters(), 2e-4, betas=(0.5, 0.999)) for m in (g, d))
    bce = F.binary_cross_entropy_with_logits
    for _, (x, _) in zip(range(4), DataLoader(Images(32), 8)):
        x = x.to(DEVICE)
        made = g(torch.randn(len(x), 64, 1, 1, device=DEVICE))
        real, fake = d(x), d(made.detach())
        od.zero_grad()
        (bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake))).backward()
        od.step()
        judged = d(made)
        og.zero_grad()
        bce(judged, torch.ones_like(judged)).backward()
        og.step()


def diffusion():
    """A UNet with an average of its weights."""
    from diffusers import DDPMScheduler, UNet2DModel
    net = UNet2DModel(sample_size=32, block_out_channels=(32, 64), down_block_types=("DownBlock2D", "DownBlock2D"),
                      up_block_types=("UpBlock2D", "UpBlock2D")).to(DEVICE)
    average, optimizer, noise = copy.deepcopy(net), adamw(net.parameters()), DDPMScheduler(100)
    for _, (x, _) in zip(range(4), DataLoader(Images(32), 8)):
        x = x.to(DEVICE)
        e, t = torch.randn_like(x), torch.randint(100, (len(x),), device=DEVICE)
        F.mse_loss(net(noise.add_noise(x, e, t), t).sample, e).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters()):
                a.lerp_(p, 0.01)


def contrastive():
    """A loss over all pairs, with checkpoints."""
    from torch.utils.checkpoint import checkpoint
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.LayerNorm(256))
                           for _ in range(6)).to(DEVICE)
    optimizer = adamw(blocks.parameters())
    for _ in range(4):
        a = b = torch.randn(512, 256, device=DEVICE)
        for block in blocks:
            a = checkpoint(block, a, use_reentrant=False)
            b = checkpoint(block, b, use_reentrant=False)
        scores = F.normalize(a) @ F.normalize(b).t() / 0.1
        F.cross_entropy(scores, torch.arange(len(scores), device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()


def speech():
    """A convolution in front of an encoder, and CTC's place taken by frames."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.front = nn.Sequential(nn.Conv1d(80, 144, 3, 2, 1), nn.GELU(), nn.Conv1d(144, 144, 3, 2, 1), nn.GELU())
            layer = nn.TransformerEncoderLayer(144, 4, 576, dropout=0.0, batch_first=True, norm_first=True)
            self.encoder, self.head = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(144, 64)

        def forward(self, x):
            return self.head(self.encoder(self.front(x).transpose(1, 2)))

    net = Net().to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(4):
        out = net(torch.randn(8, 80, 400, device=DEVICE))
        F.cross_entropy(out.flatten(0, 1), torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long,
                                                       device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()


def lightning():
    import lightning
    import torchvision

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torchvision.models.mobilenet_v3_small(num_classes=10)

        def training_step(self, batch, i):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return adamw(self.parameters())

    lightning.Trainer(max_steps=4, accelerator="gpu" if DEVICE.type == "cuda" else "cpu", devices=1, logger=False,
                      enable_checkpointing=False, enable_progress_bar=False).fit(Module(), DataLoader(Images(96), 8))


def accelerated():
    import accelerate
    import torchvision
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2)
    net = torchvision.models.vgg11_bn(num_classes=10, dropout=0.0)
    net, optimizer, data = accelerator.prepare(net, sgd(net.parameters()), DataLoader(Images(64), 8))
    for x, y in data:
        with accelerator.accumulate(net):
            accelerator.backward(F.cross_entropy(net(x), y))
            optimizer.step()
            optimizer.zero_grad()


KINDS = dict(resnet=resnet, segmentation=segmentation, efficientnet=efficientnet, swin=swin, gpt2=gpt2, trainer=trainer,
             lora=lora, gan=gan, diffusion=diffusion, contrastive=contrastive, speech=speech, lightning=lightning,
             accelerated=accelerated)

if __name__ == "__main__":
    KINDS[sys.argv[1]]()
