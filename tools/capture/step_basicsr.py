"""BasicSR's steps: optimize_parameters of its own models (basicsr/models at 8d56e3a0), run as they are on networks, losses and
optimizers of its own, so that the order of forwards, backwards and cleared gradients is the project's.

Checkout: basicsr; or nafnet or restormer, whose copies of BasicSR have a model of their own, each into a file of its own.
Weights are not loaded. The degradations of Real-ESRGAN are left out: pairs are given.
"""

import importlib
import sys
import types

import torch

import basicsr
import capture
import track

DIRS = {}


def stubs():
    """What the models import and a step does not run."""
    sys.path.insert(0, DIRS["basicsr"])
    basicsr.packages(DIRS["basicsr"])
    capture.stub_losses()
    basicsr.stub_vgg()
    sys.modules.setdefault("cv2", types.ModuleType("cv2"))
    nothing = lambda *args, **kwargs: None  # noqa: E731
    for name, names in {
        "basicsr.models.archs": ["define_network"], "basicsr.archs": ["build_network"], "basicsr.losses": ["build_loss"], "basicsr.metrics": ["calculate_metric"],
        "basicsr.utils": ["imwrite", "tensor2img", "DiffJPEG", "USMSharp"], "basicsr.utils.dist_util": ["get_dist_info", "master_only"],
        "basicsr.data.degradations": ["random_add_gaussian_noise_pt", "random_add_poisson_noise_pt"],
        "basicsr.data.transforms": ["paired_random_crop"], "basicsr.utils.img_process_util": ["filter2D"],
    }.items():
        m = sys.modules.setdefault(name, types.ModuleType(name))
        for n in names:
            setattr(m, n, (lambda f: f) if n == "master_only" else nothing)


def model_class(name):
    return basicsr.find(DIRS["basicsr"], name, "_model.py")


def part(name, args, suffix="_arch.py"):
    return basicsr.find(DIRS["basicsr"], name, suffix)(**args).to("meta")


def build(a):
    """The model as its constructor leaves it."""
    m = object.__new__(model_class(a["model"]))
    m.device = "meta"
    with torch.device("meta"):
        m.net_g = part(a["net"], a["args"]).train()
        if a["ema"]:
            m.net_g_ema = part(a["net"], a["args"]).eval()
        if a["disc"]:
            m.net_d = part(a["disc"], a["disc_args"]).train()
        losses = {x["name"]: part(x["type"], x.get("args", {}), ("_loss.py", "losses.py")) for x in a["losses"]}
    m.cri_pix, m.cri_perceptual, m.cri_ldl = (losses.get(k) for k in ("pixel_opt", "perceptual_opt", "ldl_opt"))
    m.cri_gan = losses.get("gan_opt")
    m.optimizer_g = torch.optim.Adam(m.net_g.parameters(), 1e-4, foreach=True)
    if a["disc"]:
        m.optimizer_d = torch.optim.Adam(m.net_d.parameters(), 1e-4, foreach=True)
    m.fix_flow_iter = None
    m.ema_decay, m.net_d_iters, m.net_d_init_iters = 0.999 if a["ema"] else 0, 1, 0
    m.opt = {"dist": False, "l1_gt_usm": True, "percep_gt_usm": True, "gan_gt_usm": False, "scale": a["scale"], "train": {"use_grad_clip": True}}
    mods = [m.net_g, *(getattr(m, n) for n in ("net_g_ema", "net_d") if hasattr(m, n)), *losses.values()]
    return m, [x for x in mods if isinstance(x, torch.nn.Module)]


def case(a, rec):
    m, mods = build(a)
    rec.roots(*mods)
    m.net_g.register_forward_pre_hook(lambda *_: rec.at("forward"))
    real = torch.Tensor.backward

    def backward(loss, *args, **kwargs):
        rec.at("backward")
        real(loss, *args, **kwargs)

    torch.Tensor.backward = backward
    try:
        for i in rec.steps(3):
            rec.at("batch")
            clips = (a["batch"], a["frames"], 3) if "frames" in a else (a["batch"], 3)
            m.lq = torch.empty(*clips, a["lq"], a["lq"], device="meta")
            m.gt = torch.empty(*clips, a["lq"] * a["scale"], a["lq"] * a["scale"], device="meta")
            if a["model"] == "RealESRGANModel":
                m.gt_usm = torch.empty_like(m.gt)
            m.optimize_parameters(*([i + 1, None] if a["project"] == "NAFNet" else [i + 1]))
    finally:
        torch.Tensor.backward = real
    return mods


def restorers(project):
    """The steps of the projects whose copies of BasicSR restore images at their size."""
    base = {"project": project, "scale": 1, "batch": 2, "lq": 64, "ema": False, "precision": "fp32", "disc": "", "optimizer": "adam"}
    for change in {
        "NAFNet": [{"net": "NAFNet", "args": {"width": 32, "middle_blk_num": 1, "enc_blk_nums": [1, 1, 1, 8], "dec_blk_nums": [1, 1, 1, 1]},
                    "model": "ImageRestorationModel", "losses": [{"type": "PSNRLoss", "name": "pixel_opt"}], **size}
                   for size in ({}, {"batch": 1, "lq": 32}, {"lq": 128})],
        "Restormer": [{"net": "Restormer", "args": {"num_blocks": [2, 2, 2, 2]}, "model": "ImageCleanModel",
                       "losses": [{"type": "L1Loss", "name": "pixel_opt"}], **size} for size in ({}, {"ema": True, "lq": 128})],
    }[project]:
        a = {**base, **change}
        yield case, {"name": f"{a['model']} {a['net']}", **a}


def cases(checkouts):
    built = {"nafnet": "NAFNet", "restormer": "Restormer"}
    DIRS["basicsr"] = next(iter(checkouts.values()))
    stubs()
    for name in checkouts:
        if name in built:
            yield from restorers(built[name])
            return
    l1 = [{"type": "L1Loss", "name": "pixel_opt"}]
    ldl = [{"type": "L1Loss", "name": "ldl_opt"}]
    layers = {"conv1_2": 0.1, "conv2_2": 0.1, "conv3_4": 1, "conv4_4": 1, "conv5_4": 1}
    vgg = [*l1, {"type": "PerceptualLoss", "name": "perceptual_opt", "args": {"layer_weights": {"conv5_4": 1}}}]
    wide = [*l1, {"type": "PerceptualLoss", "name": "perceptual_opt", "args": {"layer_weights": layers}}]
    gan = [{"type": "GANLoss", "name": "gan_opt", "args": {"gan_type": "vanilla"}}]
    style = {"disc": "VGGStyleDiscriminator", "disc_args": {"num_in_ch": 3, "num_feat": 64}, "losses": [*vgg, *gan]}
    unet = {"disc": "UNetDiscriminatorSN", "disc_args": {"num_in_ch": 3, "num_feat": 64}, "losses": [*wide, *gan]}
    three = {"num_in_ch": 3, "num_out_ch": 3}
    rrdb = {"net": "RRDBNet", "args": {**three, "num_feat": 64, "num_block": 23}}
    small = {"net": "RRDBNet", "args": {**three, "num_feat": 64, "num_block": 4}}
    msr = {"net": "MSRResNet", "args": {**three, "num_feat": 64, "num_block": 16, "upscale": 4}}
    swin = {"net": "SwinIR", "args": {"upscale": 4, "img_size": 48, "window_size": 8, "depths": [6, 6], "embed_dim": 180,
                                      "num_heads": [6, 6], "mlp_ratio": 2, "upsampler": "pixelshuffle"}}
    edsr = {"net": "EDSR", "args": {**three, "num_feat": 256, "num_block": 32, "upscale": 4, "res_scale": 0.1}}
    wide_net = {"net": "EDSR", "args": {**three, "num_feat": 256, "num_block": 4, "upscale": 4}}
    base = {"project": "BasicSR", "scale": 4, "batch": 4, "lq": 32, "ema": True, "precision": "fp32", "disc": "", "losses": l1,
            "optimizer": "adam"}
    vsr = {"net": "BasicVSR", "args": {"num_feat": 64, "num_block": 3}, "frames": 4, "lq": 64, "batch": 2}
    big = {"disc": "VGGStyleDiscriminator", "disc_args": {"num_in_ch": 3, "num_feat": 32, "input_size": 256}}
    for change in (
        {"model": "VideoRecurrentModel", **vsr}, {"model": "VideoRecurrentGANModel", **vsr, **big, "losses": [*vgg, *gan]},
        {"model": "SRModel", **msr}, {"model": "SRModel", **edsr, "batch": 2, "lq": 48}, {"model": "SRModel", **msr, "losses": vgg, "ema": False},
        {"model": "SwinIRModel", **swin, "lq": 48}, {"model": "SRGANModel", **msr, **style}, {"model": "SRGANModel", **msr, **style, "batch": 16},
        {"model": "SRGANModel", **wide_net, **style, "losses": [*l1, *gan], "batch": 1},  # whose peak is the discriminator's optimizer
        {"model": "ESRGANModel", **rrdb, **style}, {"model": "ESRGANModel", **small, **style}, {"model": "ESRGANModel", **msr, **style, "batch": 16},
        {"model": "RealESRGANModel", **rrdb, **unet, "lq": 64, "batch": 2}, {"model": "RealESRGANModel", **small, **unet, "lq": 64, "batch": 2},
        {"model": "RealESRGANModel", **small, **unet, "losses": [*wide, *gan, *ldl], "lq": 64, "batch": 2, "dead": True},
        {"model": "RealESRGANModel", **rrdb, **unet, "losses": [*wide, *gan, *ldl], "lq": 64, "batch": 2, "dead": True},
    ):
        a = {**base, **change}
        yield case, {"name": f"{a['model']} {a['net']}", **a}
