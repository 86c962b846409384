from .recognition import RecognitionConfig, ShapesConfig, StripesConfig, get_fgvc_config

__all__ = ["RecognitionConfig", "ShapesConfig", "StripesConfig", "get_fgvc_config"]
