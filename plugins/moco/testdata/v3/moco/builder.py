class MoCo: pass
