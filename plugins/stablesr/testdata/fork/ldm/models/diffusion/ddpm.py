# A stand-in of our own for a fork's trainer: one signature of log_images, and a sampling with guidance.
class Other:
    def log_images(self, batch, N=2, inpaint=True):
        pass


class LatentDiffusion(Other):
    def log_images(self, batch, N=5, n_row=3, sample=True, quantize_denoised=True, inpaint=False, plot_denoise_rows=False,
                   plot_progressive_rows=True, plot_diffusion_rows=False, unconditional_guidance_scale=1.0, use_ema_scope=True,
                   return_keys=None, **kwargs):
        return {}
