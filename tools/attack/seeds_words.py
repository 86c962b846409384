"""Whether an out-of-memory at a random place loses a step: real libraries and projects, on the CPU.

    seeds_words.py --launch bin/launch --python venv/bin/python --projects src --family trainer --seeds 20

Each seed draws a step between two saved states and an operator in each of the places: the forward passes, the backward passes,
the validation, the optimizer's step. The program runs under launch and fails there (injected/sitecustomize.py). Then it is
resumed, as a user would resume it, from the state that launch reports or else from its own newest one; the losses of all
its micro-batches, and the parameters and optimizer states at its end, are compared with those of a run that was never
interrupted, to the bit. With --split launch itself goes on one rung lower, and the losses of whole steps are compared.

Where the program's own states do not have all that its next step needs, a run cannot equal one that was never interrupted;
it then has to equal one that was resumed from the state that the program itself saved of that step ("as its own").
"""
import argparse, concurrent.futures, glob, json, os, random, shutil, subprocess, sys, tempfile, threading

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = ["forward", "backward", "validation", "optimizer"]

TRAINER = '''
import sys, torch
from transformers import Trainer, TrainingArguments, HfArgumentParser, GPT2Config, GPT2LMHeadModel, set_seed

VARIANT = "@VARIANT@"
drop = 0.0 if "@DROP@" == "0" else 0.1


class Data(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.x = torch.randint(0, 97, (n, 16), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "labels": self.x[i]}


def masked(rows):
    x = torch.stack([r["input_ids"] for r in rows])
    return {"input_ids": torch.where(torch.rand(x.shape) < 0.15, 0, x), "labels": x}


args, = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
set_seed(args.seed)
model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=drop,
                                   embd_pdrop=drop, attn_pdrop=drop))
if VARIANT == "lora":
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["c_attn"], lora_dropout=drop))
t = Trainer(model=model, args=args, train_dataset=Data(64, 1), eval_dataset=Data(16, 2),
            data_collator=masked if VARIANT == "masked" else None)
t.train(resume_from_checkpoint=args.resume_from_checkpoint)
'''

SFT = '''
import sys, torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

args, = HfArgumentParser((SFTConfig,)).parse_args_into_dataclasses()
set_seed(args.seed)
words = Tokenizer(models.WordLevel({"w%d" % i: i for i in range(96)} | {"<end>": 96}, unk_token="<end>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>", unk_token="<end>")
model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=96, eos_token_id=96))


def data(n, seed):
    chance = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, 96, (8 + i % 5,), generator=chance).tolist() for i in range(n)]
    return Dataset.from_dict({"text": [" ".join("w%d" % x for x in r) for r in rows]})


t = SFTTrainer(model=model, args=args, train_dataset=data(64, 1), eval_dataset=data(16, 2), processing_class=tokenizer)
t.train(resume_from_checkpoint=args.resume_from_checkpoint)
'''

FLASH = '''
import argparse, sys, torch
import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint

p = argparse.ArgumentParser()
p.add_argument("--resume")
p.add_argument("--batch", type=int, default=4)
p.add_argument("--accumulate", type=int, default=1)
args = p.parse_args()
torch.set_num_threads(1)


class Data(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.x = torch.rand(n, 8, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Linear(16, 8))

    def training_step(self, x, i):
        return (self.net(x) - x).square().mean()

    def validation_step(self, x, i):
        self.log("val_loss", (self.net(x) - x).square().mean())

    def configure_optimizers(self):
        o = torch.optim.Adam(self.parameters(), lr=0.01)
        return {"optimizer": o, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.ExponentialLR(o, 0.9), "interval": "step"}}


pl.seed_everything(1)
load = lambda n, seed: torch.utils.data.DataLoader(Data(n, seed), args.batch)
best = ModelCheckpoint(dirpath="out", filename="{epoch}-{step}", monitor="val_loss", save_top_k=2, save_last=True)
trainer = pl.Trainer(max_epochs=5, accelerator="cpu", devices=1, callbacks=[best], logger=False, enable_progress_bar=False,
                     enable_model_summary=False, num_sanity_val_steps=0, accumulate_grad_batches=args.accumulate)
trainer.fit(Module(), load(16 * args.accumulate, 1), load(12, 2), ckpt_path=args.resume)
'''

LOOP = '''
import argparse, logging, os, torch
from accelerate import Accelerator


class Data(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.x = torch.rand(n, 8, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


def log_validation(model, accelerator):
    model.eval()
    with torch.no_grad():
        loss = sum(float((model(x) - x).square().mean()) for x in torch.utils.data.DataLoader(Data(16, 2), 4))
    model.train()
    print("validation", loss, flush=True)


def main(args):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(args.dropout), torch.nn.GELU(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    data = torch.utils.data.DataLoader(Data(48, 1), args.train_batch_size, shuffle=args.shuffle)
    model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
    global_step = first_epoch = skipped = 0
    per_epoch = len(data) // args.gradient_accumulation_steps
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        global_step = int(args.resume_from_checkpoint.split("-")[-1])
        first_epoch, skipped = global_step // per_epoch, global_step % per_epoch * args.gradient_accumulation_steps
    for epoch in range(first_epoch, 99):
        model.train()
        batches = data
        if args.resume_from_checkpoint and epoch == first_epoch and skipped:
            batches = accelerator.skip_first_batches(data, skipped)
        for batch in batches:
            noise = args.noise * torch.randn_like(batch)
            with accelerator.accumulate(model):
                loss = (model(batch + noise) - batch).square().mean()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                global_step += 1
                print("Steps: %d/%d" % (global_step, args.max_train_steps), flush=True)
                if global_step % args.checkpointing_steps == 0:
                    path = os.path.join(args.output_dir, "checkpoint-%d" % global_step)
                    accelerator.save_state(path)
                    print("Saved state to", path, flush=True)
                if global_step % 3 == 0:
                    log_validation(model, accelerator)
            if global_step >= args.max_train_steps:
                return


p = argparse.ArgumentParser()
p.add_argument("--output_dir", default="out")
p.add_argument("--resume_from_checkpoint")
p.add_argument("--train_batch_size", type=int, default=4)
p.add_argument("--gradient_accumulation_steps", type=int, default=1)
p.add_argument("--checkpointing_steps", type=int, default=6)
p.add_argument("--max_train_steps", type=int, default=20)
p.add_argument("--dropout", type=float, default=0.1)
p.add_argument("--noise", type=float, default=0.1)
p.add_argument("--shuffle", action="store_true")
main(p.parse_args())
'''


class Family:
    """A program. Its folder is what its commands run in, and out in it has its states."""

    name = script = ""
    total, every, checks = 20, 6, 3  # steps, between two states, between two validations
    variants = [""]
    cost = "speed"  # what --allow needs for a smaller micro-batch
    epochs = False  # its states are of whole epochs only
    places = PLACES
    drawn_as = False  # its validation draws pictures with the network as it is trained
    imports = ["torch", "torch._dynamo"]  # what a warm Python has imported
    warm, lock = None, threading.Lock()

    def __init__(self, a):
        self.python, self.projects = os.path.abspath(a.python), os.path.abspath(a.projects)

    def write(self, folder, variant, split):
        raise NotImplementedError

    def command(self, variant, resume=None, every=None):
        raise NotImplementedError

    def before(self, folder):
        """Writes what the last command reads."""

    def drawn(self, chance, place):
        """The number of finished steps at which to fail: between two states of the program's own."""
        if place == "validation" and self.epochs:
            return chance.choice([n for n in range(1, self.total) if n % self.checks == 0])
        if place == "validation":
            return chance.choice([n for n in range(1, self.total) if n % self.checks == 0 and n % self.every])
        return chance.choice([n for n in range(1, self.total) if n % self.every])

    def own(self, folder):
        """The newest state of the program's own that a user would resume from."""
        found = [p for p in glob.glob(os.path.join(folder, self.states)) if os.path.lexists(p)]
        return max(found, key=os.path.getmtime) if found else None

    states = "out/checkpoint-*"


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class HuggingFace(Family):
    name, script = "trainer", "train.py"
    variants = ["plain", "accumulated", "lora"]
    imports = ["transformers.trainer", "transformers.models.gpt2.modeling_gpt2", "peft", "torch._dynamo"]

    def write(self, folder, variant, split):
        put(folder + "/train.py", TRAINER.replace("@VARIANT@", variant).replace("@DROP@", "0" if split else "1"))
        put(folder + "/.launch-job.yaml", r"""script: train.py
micro-batch: --per_device_train_batch_size
accumulation: {at: --gradient_accumulation_steps, default: 1}
batch-norm: false
progress: '^ *\d+%\|.*\| (?P<iteration>\d+)/(?P<total>\d+) \['
last-words: transformers
resume: {--resume_from_checkpoint: 'out/checkpoint-*'}
""")

    def command(self, variant, resume=None, every=None):
        c = [self.python, "train.py", "--output_dir", "out", "--max_steps", str(self.total), "--save_steps", str(every or self.every),
             "--eval_strategy", "steps", "--eval_steps", str(self.checks), "--per_device_train_batch_size", "4", "--report_to", "none",
             "--logging_steps", "1", "--use_cpu", "true"]
        if variant == "accumulated":
            c += ["--gradient_accumulation_steps", "2"]
        return c + (["--resume_from_checkpoint", resume] if resume else [])


class Accelerate(Family):
    name, script = "accelerate", "train.py"
    variants, cost = ["", "accumulated", "shuffled"], "numerics"  # launch sees that an epoch may end within a group
    imports = ["accelerate", "torch._dynamo"]

    def write(self, folder, variant, split):
        self.split = split
        put(folder + "/train.py", LOOP)
        put(folder + "/.launch-job.yaml", r"""script: train.py
micro-batch: {at: --train_batch_size, default: 4}
accumulation: {at: --gradient_accumulation_steps, default: 1}
batch-norm: false
progress: '^Steps: (?P<iteration>\d+)/(?P<total>\d+)'
last-words: accelerate
resume: {--resume_from_checkpoint: 'out/checkpoint-*'}
""")

    def command(self, variant, resume=None, every=None):
        c = [self.python, "train.py", "--checkpointing_steps", str(every or self.every)]
        if variant == "accumulated":
            c += ["--gradient_accumulation_steps", "2"]
        if variant == "shuffled":
            c += ["--shuffle"]
        if self.split:
            c += ["--dropout", "0", "--noise", "0"]
        return c + (["--resume_from_checkpoint", resume] if resume else [])


class Tuning(HuggingFace):
    """TRL's SFTTrainer, which is built on that Trainer."""

    name = "sft"
    variants = ["plain", "accumulated"]
    imports = ["trl", "datasets", *HuggingFace.imports]

    def write(self, folder, variant, split):
        super().write(folder, variant, split)
        put(folder + "/train.py", SFT)

    def command(self, variant, resume=None, every=None):
        return super().command(variant, resume, every) + ["--bf16", "false", "--gradient_checkpointing", "false", "--seed", "3"]


class Diffusers(Family):
    """examples/unconditional_image_generation/train_unconditional.py as it is. Its validation is that it draws pictures. To save
    averaged parameters it makes a network, which draws random numbers, so these runs save no states of their own."""

    name, script, states = "diffusers", "train.py", "out/checkpoint-*"
    every, checks, cost, drawn_as = 99, 4, "numerics", True
    variants = ["", "ema"]
    imports = ["diffusers", "datasets", "accelerate", "torchvision", "torch._dynamo", "tensorboard"]

    def write(self, folder, variant, split):
        examples = os.path.join(self.projects, "diffusers/examples/unconditional_image_generation/train_unconditional.py")
        shutil.copy(examples, folder + "/train.py")
        put(folder + "/model/config.json", json.dumps({
            "_class_name": "UNet2DModel", "sample_size": 8, "in_channels": 3, "out_channels": 3, "layers_per_block": 1,
            "block_out_channels": [8, 8], "norm_num_groups": 4, "down_block_types": ["DownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "UpBlock2D"]}))
        os.makedirs(folder + "/hr"), os.makedirs(folder + "/lr")
        subprocess.run([self.python, "-c", PICTURES, "8"], cwd=folder, check=True)
        put(folder + "/.launch-job.yaml", r"""script: train.py
micro-batch: {at: --train_batch_size, default: 2}
accumulation: {at: --gradient_accumulation_steps, default: 1}
batch-norm: false
last-words: accelerate
resume: {--resume_from_checkpoint: 'out/checkpoint-*'}
""")

    def command(self, variant, resume=None, every=None):
        c = [self.python, "train.py", "--train_data_dir", "hr", "--model_config_name_or_path", "model", "--resolution", "8", "--output_dir",
             "out", "--train_batch_size", "2", "--num_epochs", "5", "--checkpointing_steps", str(every or self.every), "--save_images_epochs",
             "1", "--save_model_epochs", "99", "--ddpm_num_inference_steps", "2", "--eval_batch_size", "2", "--lr_warmup_steps", "3"]
        if variant == "ema":
            c.append("--use_ema")
        return c + (["--resume_from_checkpoint", resume] if resume else [])


class Lightning(Family):
    """Its states are of whole epochs: one is saved only where the validation fails that ends one."""

    name, script, states = "lightning", "train.py", "out/*.ckpt"
    every, checks, epochs = 4, 4, True
    imports = ["lightning.pytorch", "torch._dynamo"]

    def write(self, folder, variant, split):
        put(folder + "/train.py", FLASH)
        put(folder + "/.launch-job.yaml", """script: train.py
micro-batch: {at: --batch, default: 4}
accumulation: {at: --accumulate, default: 1}
batch-norm: true
last-words: lightning
resume: {--resume: 'out/*.ckpt'}
""")

    def command(self, variant, resume=None, every=None):
        return [self.python, "train.py"] + (["--resume", resume] if resume else [])


class Timm(Family):
    """Its states are of whole epochs, too, and have no random state: a resume draws its batches otherwise."""

    name, script, states = "timm", "train.py", "out/small/checkpoint-*.pth.tar"
    every, checks, epochs = 4, 4, True
    imports = ["timm", "torchvision", "torch._dynamo"]

    def write(self, folder, variant, split):
        shutil.copy(os.path.join(self.projects, "pytorch-image-models/train.py"), folder)
        os.makedirs(folder + "/hr"), os.makedirs(folder + "/lr")
        subprocess.run([self.python, "-c", PICTURES, "16"], cwd=folder, check=True)
        for n in range(16):
            for part in "train", "val":
                os.makedirs("%s/data/%s/%s" % (folder, part, "ab"[n % 2]), exist_ok=True)
                shutil.copy("%s/hr/%d.png" % (folder, n), "%s/data/%s/%s" % (folder, part, "ab"[n % 2]))
        put(folder + "/.launch-job.yaml", """script: train.py
micro-batch: {at: -b, default: 4}
accumulation: {at: --grad-accum-steps, default: 1}
batch-norm: true
last-words: timm
resume: {--resume: 'out/small/last.pth.tar'}
""")

    def command(self, variant, resume=None, every=None):
        return [self.python, "train.py", "--data-dir", "data", "--train-split", "train", "--val-split", "val", "--model", "test_resnet",
                "--num-classes", "2", "--img-size", "32", "--device", "cpu", "-b", "4", "--epochs", "5", "--cooldown-epochs", "0",
                "--warmup-epochs", "1", "-j", "0", "--no-prefetcher", "--output", "out", "--experiment", "small", "--opt", "adamw",
                "--lr", "0.01", "--log-interval", "1"] + (["--resume", resume] if resume else [])

    def numbered(self, path):
        """The steps of a state; its number is that of an epoch, counted from 0."""
        return self.checks * (1 + int(path.rsplit("-", 1)[1].split(".")[0]))

    def own(self, folder):
        path = folder + "/out/small/last.pth.tar"
        return path if os.path.exists(path) else None


class NanoGPT(Family):
    """Its states have no random state, so all batches here are the same one: of a text that has one place to begin at."""

    name, script, states = "nanogpt", "train.py", "out/ckpt*.pt"
    every, checks, cost = 6, 6, "metrics"

    def write(self, folder, variant, split):
        import array
        for name in "train.py", "model.py", "configurator.py":
            shutil.copy(os.path.join(self.projects, "nanoGPT", name), folder)
        os.makedirs(folder + "/data/small", exist_ok=True)
        chance = random.Random(1)
        for name in "train.bin", "val.bin":
            with open(folder + "/data/small/" + name, "wb") as f:
                array.array("H", [chance.randrange(60) for _ in range(17)]).tofile(f)

    def drawn(self, chance, place):
        if place == "validation":
            return chance.choice([n for n in range(1, self.total) if n % self.checks == 0])
        return super().drawn(chance, place)

    def command(self, variant, resume=None, every=None):
        c = [self.python, "train.py", "--device=cpu", "--dtype=float32", "--compile=False", "--dataset=small", "--block_size=16",
             "--batch_size=4", "--gradient_accumulation_steps=2", "--n_layer=2", "--n_head=2", "--n_embd=32", "--eval_iters=2",
             "--max_iters=%d" % (self.total - 1), "--eval_interval=%d" % (every or self.every), "--warmup_iters=3",
             "--learning_rate=0.003"]
        return c + (["--init_from=resume"] if resume else [])

    def own(self, folder):
        path = folder + "/out/ckpt.pt"
        return path if os.path.exists(path) else None


PICTURES = '''
import cv2, numpy, sys
for i in range(int(sys.argv[1])):
    large = numpy.random.RandomState(i).randint(0, 255, (32, 32, 3), dtype=numpy.uint8)
    cv2.imwrite("hr/%d.png" % i, large), cv2.imwrite("lr/%d.png" % i, large[::2, ::2])
'''

RECIPE = """name: small
model_type: @MODEL@
scale: 2
num_gpu: 0
manual_seed: 10
datasets:
  train: {name: a, type: PairedImageDataset, dataroot_gt: hr, dataroot_lq: lr, filename_tmpl: '{}', io_backend: {type: disk}, gt_size: 32,
    use_hflip: false, use_rot: false, num_worker_per_gpu: 0, batch_size_per_gpu: 2, dataset_enlarge_ratio: 4, prefetch_mode: ~}
  val: {name: b, type: PairedImageDataset, dataroot_gt: hr, dataroot_lq: lr, io_backend: {type: disk}}
network_g: {type: EDSR, num_in_ch: 3, num_out_ch: 3, num_feat: 8, num_block: 2, upscale: 2}
@DISCRIMINATOR@
path: {pretrain_network_g: ~, strict_load_g: true, resume_state: @RESUME@}
train:
  ema_decay: 0.9
  optim_g: {type: Adam, lr: 0.001, weight_decay: 0, betas: [0.9, 0.99]}
  optim_d: {type: Adam, lr: 0.001, weight_decay: 0, betas: [0.9, 0.99]}
  scheduler: {type: MultiStepLR, milestones: [9, 14], gamma: 0.5}
  total_iter: @TOTAL@
  warmup_iter: 4
  pixel_opt: {type: L1Loss, loss_weight: 1.0, reduction: mean}
  @GAN@
  net_d_iters: 1
  net_d_init_iters: 0
val: {val_freq: @CHECKS@, save_img: false, metrics: {psnr: {type: calculate_psnr, crop_border: 2, test_y_channel: false}}}
logger: {print_freq: 1, save_checkpoint_freq: @EVERY@, use_tb_logger: false, wandb: {project: ~, resume_id: ~}}
dist_params: {backend: gloo, port: 29500}
"""


class BasicSR(Family):
    """Its states have no random state, and a resume begins the epoch again, so all pictures of a training here are the same one."""

    name, script, states = "basicsr", "train.py", "experiments/small/training_states/*.state"
    variants = ["plain"]
    imports = ["torch._dynamo", "torchvision", "cv2", "scipy", "skimage", "tqdm", "yaml", "lmdb"]

    def write(self, folder, variant, split):
        source = os.path.join(self.projects, "BasicSR", "basicsr")
        shutil.copytree(source, os.path.join(folder, "basicsr"), ignore=shutil.ignore_patterns("__pycache__"))
        put(folder + "/basicsr/version.py", "__version__ = '1.4.2'\n__gitsha__ = 'unknown'\n")
        with open(folder + "/basicsr/train.py", encoding="utf-8") as f:
            text = f.read()
        text = text.replace("device_id = torch.cuda.current_device()", "pass")  # it resumes with a card only
        put(folder + "/basicsr/train.py", text.replace("map_location=lambda storage, loc: storage.cuda(device_id)", "weights_only=False"))
        for name in "data/degradations.py", "losses/basic_loss.py":  # a module that torchvision no longer has
            with open(folder + "/basicsr/" + name, encoding="utf-8") as f:
                text = f.read()
            put(folder + "/basicsr/" + name, text.replace("torchvision.transforms.functional_tensor", "torchvision.transforms.functional"))
        os.makedirs(folder + "/hr"), os.makedirs(folder + "/lr")
        subprocess.run([self.python, "-c", PICTURES, "1"], cwd=folder, check=True)

    def command(self, variant, resume=None, every=None):
        self.settings = {"RESUME": resume or "~", "TOTAL": str(self.total), "CHECKS": str(self.checks), "EVERY": str(every or self.every),
                         "MODEL": "SRGANModel" if variant == "gan" else "SRModel",
                         "DISCRIMINATOR": "network_d: {type: UNetDiscriminatorSN, num_in_ch: 3, num_feat: 8}" if variant == "gan" else "",
                         "GAN": "gan_opt: {type: GANLoss, gan_type: vanilla, real_label_val: 1.0, fake_label_val: 0.0, loss_weight: 0.1}" if variant == "gan" else ""}
        return [self.python, "basicsr/train.py", "-opt", "x.yml"]

    def before(self, folder):
        text = RECIPE
        for name, value in self.settings.items():
            text = text.replace("@%s@" % name, value)
        put(folder + "/x.yml", text)


FAMILIES = {f.name: f for f in (HuggingFace, Tuning, Accelerate, Diffusers, NanoGPT, BasicSR, Lightning, Timm)}

WARM = """
import atexit, json, os, runpy, sys, traceback

for name in sys.argv[2:]:
    try:
        __import__(name)
    except ImportError:
        pass
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 0
        out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1), os.dup2(out, 2)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.argv, sys.orig_argv = list(order["argv"]), order["argv"]
        sys.path.insert(0, order["cwd"])
        try:
            runpy.run_path(os.path.join(order["injected"], "sitecustomize.py"))
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException as e:
            sys.last_value, code = e, 1
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Warm:
    """A Python that has imported what programs import, and runs each in a child: most of a short run is its imports."""

    def __init__(self, family):
        env = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1")
        env.pop("SEEDS_PLAN", None)
        self.process = subprocess.Popen([family.python, "-c", WARM, "warm", *family.imports], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.lock = threading.Lock()

    def run(self, argv, cwd, env):
        out = os.path.join(cwd, "output")
        with self.lock:
            self.process.stdin.write(json.dumps({"argv": argv, "cwd": cwd, "env": env, "out": out, "injected": os.path.join(HERE, "injected")}) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
        with open(out, encoding="utf-8", errors="replace") as f:
            return code, f.read()


class Program:
    """One program in a folder of its own, and what its traces say."""

    def __init__(self, a, family, variant, top, split=False):
        self.a, self.family, self.variant, self.split = a, family, variant, split
        self.top = tempfile.mkdtemp(prefix=family.name + "-", dir=top)
        family.write(self.top, variant, split)

    def run(self, resume=None, launch=None, every=None, **plan):
        """Returns the code, the output, and the trace of each process."""
        trace = os.path.join(self.top, "trace")
        open(trace, "w").close()
        plan.update(script=self.family.script, drawn=self.family.drawn_as, trace=trace, once=os.path.join(self.top, "once"))
        env = dict(os.environ, SEEDS_PLAN=json.dumps(plan), PYTHONPATH=os.path.join(HERE, "injected") + ":" + self.top, HOME=self.top,
                   OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1",
                   XDG_STATE_HOME=os.path.join(self.top, "state"), MKL_NUM_THREADS="1")
        with self.family.lock:
            command = self.family.command(self.variant, resume, every)
            self.family.before(self.top)
        if launch:
            done = subprocess.run(launch + command, cwd=self.top, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=600, text=True, errors="replace")
            code, text = done.returncode, done.stdout
        else:
            if self.family.warm is None:
                self.family.warm = Warm(self.family)
            code, text = self.family.warm.run(command[1:], self.top, env)
        processes, now = [], []
        with open(trace, encoding="utf-8") as f:
            for line in f:
                now.append(json.loads(line))
                if "end" in now[-1]:
                    processes.append(now)
                    now = []
        return code, text, processes + ([now] if now else [])


def losses(process):
    return [[e["loss"] for e in process if "loss" in e and e["steps"] == n] for n in range(made(process))]


def made(process):
    return process[-1]["steps"] if process else 0


def last(process):
    return process[-1].get("end") if process else None


def mean(step):
    return sum(map(float.fromhex, step))


class Seeds:
    def __init__(self, a, family, top):
        self.a, self.family, self.top = a, family, top
        self.whole, self.controls, self.lock = {}, {}, threading.Lock()

    def reference(self, variant, split):
        """A run that was never interrupted, and how many operators each of its phases has."""
        with self.lock:
            if (variant, split) not in self.whole:
                p = Program(self.a, self.family, variant, self.top, split)
                code, text, processes = p.run()
                if code or len(processes) != 1 or made(processes[0]) != self.family.total:
                    sys.exit("%s %s: it does not run: %s %d\n%s" % (self.family.name, variant, code, len(processes), text[-3000:]))
                counted = Program(self.a, self.family, variant, self.top, split).run(count=1)[2][0]
                if last(counted) != last(processes[0]):
                    sys.exit("%s %s: two runs differ by themselves" % (self.family.name, variant))
                self.whole[variant, split] = processes[0], counted[-1]["counts"]
            return self.whole[variant, split]

    def control(self, variant, at):
        """A run that was resumed from the state that the program itself saved after so many steps."""
        with self.lock:
            if (variant, at) not in self.controls:
                p = Program(self.a, self.family, variant, self.top)
                p.run(every=at)
                state = [s for s in glob.glob(os.path.join(p.top, self.family.states)) if self.family.numbered(s) == at] \
                    if hasattr(self.family, "numbered") else [s for s in glob.glob(os.path.join(p.top, self.family.states)) if s.endswith("-%d" % at)]
                self.controls[variant, at] = p.run(resume=state[0])[2][0] if state else []
            return self.controls[variant, at]

    def one(self, seed, place):
        chance = random.Random("%s %s %s" % (self.family.name, seed, place))
        variant, at = chance.choice(self.family.variants), self.family.drawn(chance, place)
        whole, counts = self.reference(variant, self.a.split)
        most = counts.get("%s %d" % (place, at), 0)
        refused = place == "optimizer" or self.family.epochs and place != "validation"
        row = {"refused": refused, "family": self.family.name, "variant": variant, "seed": seed, "place": place, "at": at}
        if not most:
            return dict(row, wrong="no such operator: %s" % sorted(counts))
        row["operator"], row["of"] = chance.randint(1, most), most
        p = Program(self.a, self.family, variant, self.top, self.a.split)
        report = os.path.join(p.top, "report.json")
        launch = [self.a.launch, "--json-file", report, "--as-asked", "--trace=never", "--allow", self.family.cost if self.a.split else "none", "--"]
        code, text, processes = p.run(launch=launch, place=place, at=at, operator=row["operator"])
        if not any("failed" in e and e.get("failed") == place for e in (processes or [[]])[0]):
            return dict(row, wrong="it did not fail: code %s\n%s" % (code, text[-2000:]))
        with open(report, encoding="utf-8") as f:
            words = json.load(f)["attempts"][0]["outcome"].get("last_words") or {}
        if losses(processes[0])[:at] != losses(whole)[:at]:
            return dict(row, wrong="the run that fails differs before it fails")
        row.update(saved=words.get("step"), why=words.get("why"), kept=words.get("kept"), skips=words.get("skips_validation"))
        row["said"] = [line for line in text.split("\n") if "launch: " in line and ("saved" in line or "resumes" in line or "twice" in line)]
        row["stack"] = [e["stack"] for e in processes[0] if "stack" in e][0]
        if self.a.split:
            resumed = processes[1] if len(processes) > 1 else []
        else:
            state = words.get("path") or self.family.own(p.top)
            row["from"] = state and os.path.basename(state)
            if refused and not words.get("path") and not self.a.all:
                return dict(row, ok=bool(words.get("why")))
            code, text, resumed = p.run(resume=state)
            resumed = resumed[0] if resumed else []
        row.update(self.compared(whole, resumed, at, variant))
        if "wrong" in row:
            row["wrong"] += "\n" + text[-2000:]
        shutil.rmtree(p.top)
        return row

    def compared(self, whole, resumed, at, variant):
        total = self.family.total
        if last(resumed) is None or resumed[-1]["failed"] or not made(resumed):
            return {"wrong": "the resumed run does not end well"}
        lost = made(resumed) - (total - at)
        want, got = losses(whole)[total - made(resumed):], losses(resumed)
        if self.a.split:
            apart = max(abs(mean(x) / len(x) - mean(y) / len(y)) / abs(mean(x) / len(x)) for x, y in zip(want, got))
            scaled = max(abs(mean(x) - mean(y)) / abs(mean(x)) for x, y in zip(want, got))
            return {"lost": lost, "apart": min(apart, scaled)}
        same = want == got and last(whole) == last(resumed)
        row = {"lost": lost, "same": same}
        if not same and lost == 0:
            control = self.control(variant, at)
            row["first"] = next((i for i, (x, y) in enumerate(zip(want, got)) if x != y), -1)
            row["as its own"] = bool(control) and losses(control) == got and last(control) == last(resumed)
        return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--launch", default=os.path.join(HERE, "../../bin/launch"))
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--projects", default=".", help="the folder that has nanoGPT, BasicSR, … as their names are on GitHub")
    p.add_argument("--family", default=",".join(FAMILIES))
    p.add_argument("--place", default=",".join(PLACES))
    p.add_argument("--seeds", type=int, default=20)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--split", action="store_true")
    p.add_argument("--all", action="store_true", help="resume also where nothing was saved after a failed optimizer's step")
    p.add_argument("--json", help="a file to which each trial is added as a line")
    a = p.parse_args()
    a.launch = os.path.abspath(a.launch)
    top, wrong = tempfile.mkdtemp(prefix="seeds-"), 0
    try:
        for name in a.family.split(","):
            family = FAMILIES[name](a)
            seeds = Seeds(a, family, top)
            for place in [x for x in a.place.split(",") if x in family.places]:
                def one(n):
                    row = seeds.one(n, place)
                    if a.json:
                        with open(a.json, "a", encoding="utf-8") as f:
                            f.write(json.dumps(row) + "\n")
                    return row

                with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
                    rows = list(pool.map(one, range(a.first, a.first + a.seeds)))
                wrong += table(name, place, rows)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    sys.exit(1 if wrong else 0)


def table(name, place, rows):
    """Prints one line for a place, and one for each trial that is not as it must be. Returns how many those are."""
    bad = [r for r in rows if not fine(r)]
    lost = sorted({r["lost"] for r in rows if "lost" in r})
    print("%-12s %-11s trials %2d  saved %2d  steps lost %s  same to the bit %d  as its own state %d  apart %.1e  wrong %d" % (
        name, place, len(rows), sum(bool(r.get("saved")) for r in rows), lost, sum(bool(r.get("same")) for r in rows),
        sum(bool(r.get("as its own")) for r in rows), max([r.get("apart", 0) for r in rows]), len(bad)), flush=True)
    for r in bad:
        print("   ", {k: v for k, v in r.items() if k != "said"}, flush=True)
    return len(bad)


def fine(r):
    if "wrong" in r:
        return False
    if r["refused"]:
        return not r.get("saved") and bool(r.get("why"))
    return r["lost"] == 0 and (r.get("apart", 1) < 1e-3 or r.get("same") or r.get("as its own", False))


if __name__ == "__main__":
    main()
