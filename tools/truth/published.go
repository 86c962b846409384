package main

// A claim is what a system publishes of its own accuracy, in its own words and on its own hardware.
type claim struct{ who, says, on, from string }

// Read from the papers' abstracts and the projects' repositories, July and November 2026; "computed" is from a data file that
// the authors publish.
var claims = []claim{
	{"LLMem (2024)", "error of up to 1.6 % on one GPU, 3.0 % on average on several", "fine-tuning of decoder models", "arXiv 2404.10933"},
	{"xMem (2025)", "median relative error 91 % lower than the baselines'; 4.4 % median on 12 CNN rows of its notebook (computed)", "25 models, 5,209 runs, RTX 3060 and 4060", "arXiv 2510.21048"},
	{"VeritasEst (2025)", "relative error 84 % lower, failure probability 73 % lower than the baselines'", "CNNs", "arXiv 2504.03887"},
	{"GPUMemNet (2025)", "classes of 8 GB right in 79.6 to 98.4 %; on real models median error 56 %, 2 of 18 under (computed)", "A100 of 40 GB", "itu-rad/GPUMemNet at f01eb05"},
	{"Horus, as GPUMemNet ran it", "median error 29.5 %, 10 of 18 under (computed)", "18 runs", "the same data.csv"},
	{"FakeTensor, as GPUMemNet ran it", "median error 45.8 %, 86 % under (computed)", "5,085 rows of timm", "the same fake_tensor.xlsx"},
	{"nnU-Net", "presets for 8, 8, 24, 40 GB need −3.7, +13.7, −5.4, −8.5 % of that (computed)", "A100", "documentation/resenc_presets.md"},
	{"Loggetta", "14 held-out set-ups: 1 under, 5 false refusals; plan within 0.69 to 1.02 of the driver's figure", "RTX 5090", "its evidence of 2026-10-10"},
	{"accelerate estimate-memory", "the weights within a few per cent; nothing of activations", "–", "docs/source/usage_guides/model_size_estimator.md"},
}

func published(p *printer) {
	p.heading("What the peers publish")
	p.text("Each on its own hardware and its own jobs, most of them against what NVML says is used: a different and harder question than the rows above. To be set beside the figures of a GPU, when there are some.")
	var lines [][]string
	for _, c := range claims {
		lines = append(lines, []string{c.who, c.says, c.on, c.from})
	}
	p.table([]string{"who", "says", "on", "from"}, 4, lines)
}
