package arch

// small are the encoders of examples/moco: resnets of our own with fewer channels, built as torchvision's are
// (examples/moco/src/models/backbones.py).
func small() map[string]Encoder {
	return map[string]Encoder{
		"small_resnet10": resnet{basic: true, layers: [4]int{1, 1, 1, 1}, stem: 16}.encoder(),
		"small_resnet18": resnet{basic: true, layers: [4]int{2, 2, 2, 2}, stem: 16}.encoder(),
	}
}
