#!/usr/bin/env python3
"""Records what PyTorch keeps, and needs at most, in a training step, a validation step and an image log of
latent-diffusion's trainers and their forks, of the projects' own classes and recipes.

    latent.py OUT.json --checkout DIR --taming TAMING [--clip CLIP] [--transformers DIR] [--commit SHA] "name;base=RECIPE;size=512;batch=1" ...

RECIPE is a recipe of the checkout, by its path there; set={"model.params.use_ema": false} changes keys of it. TAMING is
a checkout of CompVis/taming-transformers, CLIP one of openai/CLIP, DIR of --transformers a folder with Hugging Face's
transformers as it is installed. Lightning and whatever else is imported and decides nothing here are stubs; weights are
never loaded. log={"N": 4} are the recipe's log_images_kwargs; a sampler makes two steps in place of its 200 or 1000, which are
alike. amp=true is autocast, to bfloat16, as Lightning 1.4 has it: around a training or a validation step, and not around a
backward pass or an image log.
"""

import argparse
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import types

import torch

import measure
from stablesr import fused_dropout, toggle

STUBS = ("pytorch_lightning", "omegaconf", "clip", "kornia", "albumentations", "cv2", "webdataset", "open_clip", "wandb",
         "transformers", "matplotlib", "datasets", "more_itertools", "lmdb", "distutils", "mpl_toolkits", "pudb", "carvekit", "rembg")


class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Nothing(metaclass=Anything):
    """Stands for what a stub has and nobody calls; as a decorator it leaves a function alone."""

    def __new__(cls, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else super().__new__(cls)


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STUBS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


class LightningModule(torch.nn.Module):
    device = torch.device("meta")
    global_step, current_epoch = 1, 1

    def log(self, *args, **kwargs):
        pass

    log_dict = log


def load(a):
    """Makes the project importable."""
    import torchvision

    sys.meta_path.append(Finder())
    for d in (os.path.join(a.checkout, "stable_diffusion"), a.checkout, a.taming):
        if os.path.isdir(d):
            sys.path.insert(0, d)
    importlib.import_module("pytorch_lightning").LightningModule = LightningModule
    importlib.import_module("pytorch_lightning.utilities.distributed").rank_zero_only = lambda f: f
    conf = importlib.import_module("omegaconf")
    conf.ListConfig, conf.DictConfig = list, dict
    importlib.import_module("omegaconf.listconfig").ListConfig = list
    kornia = importlib.import_module("kornia")
    kornia.geometry = types.SimpleNamespace(resize=resize)
    kornia.enhance = types.SimpleNamespace(normalize=lambda x, m, s: (x - m.view(1, -1, 1, 1)) / s.view(1, -1, 1, 1))
    if a.clip:
        importlib.import_module("clip").load = lambda **kw: (openai_clip(a.clip), None)
    if a.transformers:
        hugging_face(a.transformers)
    to = torch.Tensor.to  # conditions name the device that they are computed on
    torch.Tensor.to = lambda self, *args, **kwargs: to(self, *("meta" if x == "cuda" else x for x in args), **kwargs)
    taming = types.ModuleType("taming.util")
    taming.get_ckpt_path = None
    sys.modules["taming.util"] = taming
    importlib.import_module("taming.modules.losses.lpips").LPIPS.load_from_pretrained = lambda self, name="": None
    vgg = torchvision.models.vgg16
    torchvision.models.vgg16 = lambda pretrained=False: vgg(weights=None)


def resize(x, size, interpolation="bicubic", align_corners=True, antialias=False):
    return torch.nn.functional.interpolate(x, size=size, mode=interpolation, align_corners=align_corners)


def openai_clip(folder):
    """clip.load("ViT-L/14", jit=False, device="cpu"), without its weights."""
    spec = importlib.util.spec_from_file_location("openai_clip_model", os.path.join(folder, "clip", "model.py"))
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m.CLIP(embed_dim=768, image_resolution=224, vision_layers=24, vision_width=1024, vision_patch_size=14, context_length=77,
                  vocab_size=49408, transformer_width=768, transformer_heads=12, transformer_layers=12).float()


def hugging_face(folder):
    """transformers' CLIPTextModel, of its own file."""
    root = os.path.join(folder, "transformers")
    for name in ("transformers", "transformers.models", "transformers.models.clip"):
        m = types.ModuleType(name)
        m.__path__ = [os.path.join(root, *name.split(".")[1:])]
        sys.modules[name] = m
    identity = lambda *args, **kwargs: (lambda f: f)  # noqa: E731

    class ModelOutput:
        def __getitem__(self, i):
            return [v for v in vars(self).values() if v is not None][i]

    class PreTrainedModel(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config

        def post_init(self):
            pass

    class PretrainedConfig:
        def __init__(self, **kwargs):
            self.__dict__.update({"output_attentions": False, "output_hidden_states": False, "use_return_dict": True}, **kwargs)

    logging = types.SimpleNamespace(get_logger=lambda name: None)
    for name, members in {
        "utils": {"ModelOutput": ModelOutput, "add_start_docstrings": identity, "add_start_docstrings_to_model_forward": identity,
                  "logging": logging, "replace_return_docstrings": identity},
        "modeling_utils": {"PreTrainedModel": PreTrainedModel}, "configuration_utils": {"PretrainedConfig": PretrainedConfig},
        "activations": {"ACT2FN": {"quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}},
        "modeling_outputs": {"BaseModelOutput": dict, "BaseModelOutputWithPooling": None},
    }.items():
        m = types.ModuleType("transformers." + name)
        m.__dict__.update(members)
        sys.modules["transformers." + name] = m

    class Output(ModelOutput):
        def __init__(self, **kwargs):
            self.__dict__.update(kwargs)

    outputs = sys.modules["transformers.modeling_outputs"]
    outputs.BaseModelOutput = outputs.BaseModelOutputWithPooling = Output
    modeling = importlib.import_module("transformers.models.clip.modeling_clip")
    config = modeling.CLIPTextConfig(vocab_size=49408, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
                                     max_position_embeddings=77, hidden_act="quick_gelu", attention_dropout=0.0, dropout=0.0,
                                     initializer_range=0.02, initializer_factor=1.0, layer_norm_eps=1e-5)
    top = sys.modules["transformers"]
    top.CLIPTokenizer = top.BertTokenizerFast = Tokenizer
    modeling.CLIPTextModel.from_pretrained = classmethod(lambda cls, version: cls(config))
    top.CLIPTextModel = modeling.CLIPTextModel


class Tokenizer:
    """Any text is 77 tokens."""

    @classmethod
    def from_pretrained(cls, version):
        return cls()

    def __call__(self, text, max_length=77, **kwargs):
        n = len(text) if isinstance(text, (list, tuple)) else 1
        return {"input_ids": torch.zeros(n, max_length, dtype=torch.long, device="meta")}


def recipe(a, base, change):
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    with open(os.path.join(a.checkout, base), encoding="utf-8") as f:
        root = yaml.load(f, Loader)
    for key, value in (change or {}).items():
        at = root
        *path, last = key.split(".")
        for k in path:
            at = at.setdefault(k, {})
        at[last] = value
    return Section(root)


class Section(dict):
    """A mapping whose keys are attributes, too, as OmegaConf has it."""

    def __init__(self, m):
        super().__init__({k: Section(v) if isinstance(v, dict) else v for k, v in m.items()})

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(name) from e


def build(config):
    from ldm.util import instantiate_from_config

    params = config["model"]["params"]
    for section in (params, params.get("first_stage_config", {}).get("params", {})):
        section.pop("ckpt_path", None)
    if "EmbeddingManager" in str(params.get("personalization_config", "")):
        manager()
    with open(os.devnull, "w", encoding="utf-8") as quiet:
        out, sys.stdout = sys.stdout, quiet
        try:
            model = instantiate_from_config(config["model"])
            if hasattr(model, "use_ema") and model.use_ema and not hasattr(model, "model_ema"):
                from ldm.modules.ema import LitEma

                model.model_ema = LitEma(model.model)
        finally:
            sys.stdout = out
    model = model.to("meta")
    if hasattr(model, "logvar"):
        model.logvar = model.logvar.to("meta")
    return model


def manager():
    """The manager of embeddings looks at a tokenizer and at weights when it is made, and at tokens in every step: where its
    placeholder stands, a place in each text."""
    from ldm.modules import embedding_manager as m

    def init(self, embedder, placeholder_strings=None, num_vectors_per_token=1, **kwargs):
        torch.nn.Module.__init__(self)
        dim = 768 if hasattr(embedder, "tokenizer") else 1280
        self.string_to_param_dict = torch.nn.ParameterDict()
        self.initial_embeddings = torch.nn.ParameterDict()
        for s in placeholder_strings:
            self.string_to_param_dict[s] = torch.nn.Parameter(torch.zeros(num_vectors_per_token, dim))
            self.initial_embeddings[s] = torch.nn.Parameter(torch.zeros(num_vectors_per_token, dim), requires_grad=False)

    def forward(self, tokenized_text, embedded_text):
        rows = torch.arange(len(tokenized_text), device="meta")
        for p in self.string_to_param_dict.values():
            embedded_text[(rows, torch.ones_like(rows))] = p
        return embedded_text

    m.EmbeddingManager.__init__, m.EmbeddingManager.forward = init, forward


def batch_of(model, config, size, batch):
    """What the loader gives, of the data sets that the recipes name."""
    p = config["model"]["params"]
    first, cond = p.get("first_stage_key", p.get("image_key", "image")), p.get("cond_stage_key")
    in_channels = (p.get("ddconfig") or p["first_stage_config"]["params"]["ddconfig"])["in_channels"]

    def image(channels=in_channels, side=size):
        return torch.rand(batch, side, side, channels, device="meta")

    if "ddpm_edit" in config["model"]["target"]:
        return {"edited": torch.rand(batch, 3, size, size, device="meta"),
                "edit": {"c_concat": torch.rand(batch, 3, size, size, device="meta"), "c_crossattn": [""] * batch}}
    out = {first: image()}
    if hasattr(model, "cc_projection"):
        out.update({cond: image(), "T": torch.rand(batch, 4, device="meta")})
    elif cond in ("caption", "txt"):
        out[cond] = [""] * batch
    elif cond == "coordinates_bbox":
        out[cond] = torch.zeros(batch, 92, dtype=torch.long, device="meta")
    elif cond == "class_label":
        out[cond] = torch.zeros(batch, dtype=torch.long, device="meta")
        out["human_label"] = [""] * batch
    elif cond == "LR_image":
        out[cond] = image(3, size // 4)
    elif cond == "segmentation":
        out[cond] = image(182)
    elif cond == "masked_image":
        out[cond] = image()
    return out


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = x.values()
    return [t for y in x for t in tensors(y)] if isinstance(x, (list, tuple, type({}.values()))) else []


def repaired(module, model):
    """At a506df57 training_step gives the loss indices that taming's does not take, and validation_step wants a module that
    nobody has imported."""
    module.version = types.SimpleNamespace(parse=lambda v: 0)
    forward = model.loss.forward
    model.loss.forward = lambda *args, predicted_indices=None, **kwargs: forward(*args, **kwargs)
    importlib.import_module("pytorch_lightning").__dict__["__version__"] = "1.4.2"


def optimizers(model):
    """Of an autoencoder's two."""
    first = [*model.encoder.parameters(), *model.decoder.parameters(), *model.quant_conv.parameters(), *model.post_quant_conv.parameters()]
    if hasattr(model, "quantize"):
        first += [*model.quantize.parameters()]
    return [first, [*model.loss.discriminator.parameters()]]


def loss_of(model, batch):
    """shared_step, or a training_step that is the fork's own."""
    if isinstance(batch, tuple):
        model.use_scheduler = False
        return model.training_step(batch, 0)
    return model.shared_step(batch)[0]


def step(model, batch, live, tally, amp=False):
    def pack(t):
        live.track(t, "saved")
        return t

    if hasattr(model, "encoder"):
        lists = optimizers(model)
        for i in range(2):
            before = toggle(lists, i)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), measure.Amp(amp) as mode:
                loss = model.training_step(batch, 0, i)
            del mode
            tally.append(live.now)
            loss.backward()
            del loss
            for p, want in before.items():
                p.requires_grad_(want)
        return
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), measure.Amp(amp) as mode:
        loss = loss_of(model, batch)
    del mode
    gc.collect()
    tally.append(live.now)
    loss.backward()


def samplers():
    """Two steps in place of 200 or 1000, whose tables nothing depends on."""
    from ldm.models.diffusion import ddim

    def make_schedule(self, ddim_num_steps, **kwargs):
        import numpy as np

        self.ddim_timesteps = np.arange(2)
        self.ddim_alphas = self.ddim_alphas_prev = self.ddim_sqrt_one_minus_alphas = self.ddim_sigmas = [0.5, 0.5]

    ddim.DDIMSampler.make_schedule = make_schedule


def record(a, name, base, size, batch, log=None, pair=False, images=True, amp=False, **kw):
    config = recipe(a, base, kw.get("set"))
    module = importlib.import_module(config["model"]["target"].rsplit(".", 1)[0])
    if hasattr(module, "log_txt_as_img"):
        module.log_txt_as_img = lambda *args, **kwargs: torch.zeros(1)
    model = build(config).train()
    if hasattr(model, "quantize"):
        repaired(module, model)
    xs = batch_of(model, config, size, batch)
    single = xs
    if pair:  # of images to learn and of images to keep
        xs = (xs, batch_of(model, config, size, batch))
    row = {"name": name, "base": base, "size": size, "batch": batch, "args": kw.get("set") or {}, "log": log or {}, "amp": amp}
    row["inputs"] = sum(measure.nbytes(t) for t in tensors(xs))
    count = lambda ps: sum(p.numel() for p in ps)  # noqa: E731
    row["params"] = {k: count(m.parameters()) for k, m in model.named_children() if count(m.parameters())}
    row["trainable"] = count(p for p in model.parameters() if p.requires_grad)

    def exclude():
        return measure.fixed(model) | {measure.key(t) for t in tensors(xs)}

    def forget():
        for p in model.parameters():
            p.grad = None
        gc.collect()

    gc.collect()
    gc.disable()
    live, tally = measure.Live(exclude(), "meta"), []
    with live:
        step(model, xs, live, tally, amp)
    row.update(saved=tally[0], peak=live.peak, peak_op=live.op, grads=count(p for p in model.parameters() if p.grad is not None))
    forget()
    val = measure.Live(exclude(), "meta")
    with torch.no_grad(), val, measure.Amp(amp):
        if hasattr(model, "encoder"):
            model.eval()
            if hasattr(model, "_validation_step"):
                model._validation_step(single, 0)
            else:
                model.validation_step(single, 0)
        else:
            model.shared_step(single)
    row.update(val_peak=val.peak, val_op=val.op)
    if images:
        samplers()
        forget()
        image = measure.Live(exclude(), "meta")
        model.eval()
        kwargs = dict(log or {})
        if hasattr(model, "progressive_denoising"):
            model.num_timesteps, model.log_every_t = 6, 1  # as many rows as 1000 steps logged every 200
        with torch.no_grad(), image:
            for _ in range(2 if getattr(model, "use_ema", False) else 1):  # what the first swap of averages leaves is there in the second
                model.log_images(xs, split="train", **kwargs)
        row.update(image_peak=image.peak, image_op=image.op)
        row["defaults"] = {k: v.default for k, v in inspect.signature(model.log_images).parameters.items()
                           if isinstance(v.default, (int, bool)) and not isinstance(v.default, type)}
    gc.enable()
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("rows", nargs="+")
    p.add_argument("--checkout", required=True)
    p.add_argument("--taming", required=True)
    p.add_argument("--clip", default="")
    p.add_argument("--transformers", default="")
    p.add_argument("--commit", default="")
    a = p.parse_intermixed_args()
    load(a)
    torch.nn.functional.dropout = fused_dropout
    rows = []
    for text in a.rows:
        name, *rest = text.split(";")
        kw = {}
        for r in rest:
            k, _, v = r.partition("=")
            kw[k] = v if k == "base" else json.loads(v)
        rows.append(record(a, name, **kw))
        print(rows[-1], file=sys.stderr)
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump({"torch": torch.__version__, "device": "meta", "commit": a.commit, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
