package declared

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/python"
)

// A name that is found is one for which a file is parsed, in each of its spellings.
func TestMayCompare(t *testing.T) {
	may := func(text string) bool { return mayCompare(python.NewSource("", text), tells().In(text)) }
	for _, name := range strings.Fields(`
		ClipLoss clip_loss SigLipLoss sig_lip_loss siglip_loss CoCaLoss coca_loss DistillClipLoss
		distill_clip_loss InfoNCE info_nce InfoNCELoss info_nce_loss INFONCE NTXentLoss nt_xent NT_Xent
		SupConLoss sup_con_loss SupContrastiveLoss supcontrast MultipleNegativesRankingLoss
		multiple_negatives_symmetric_ranking_loss CachedMultipleNegativesRankingLoss GISTEmbedLoss
		CachedGISTEmbedLoss gist_loss gist_embed_loss MegaBatchMarginLoss mega_batch_margin_loss
		BatchHardTripletLoss batch_hard_triplet batch_all BatchAllTripletLoss BatchSemiHardTripletLoss
		batch_semi_hard TripletMarginMiner MultiSimilarityPairMiner BatchEasyHardMiner BarlowTwinsLoss
		barlow_twins_loss VICRegLoss vic_reg_loss DCLLoss dcl_loss DCLWLoss dclw_loss dcl_w_loss SpladeLoss
		cached_splade_loss contrastive_loss in_batch_contrastive_loss clip_contrastive_loss CLIPModel
		VisionTextDualEncoderModel SiglipModel Siglip2Model AltCLIPModel ChineseCLIPModel ClapModel
		XCLIPModel CLIPSegModel AlignModel FlavaModel GroupViTModel GRPOTrainer GRPOConfig RLOOTrainer
		RLOOConfig PPOTrainer PPOConfig PPOv2Trainer PPOv2Config OnlineDPOTrainer OnlineDPOConfig XPOTrainer
		XPOConfig NashMDTrainer NashMDConfig KTOTrainer KTOConfig BCOTrainer BCOConfig`) {
		if kind := kindOf(name); kind == other || kind == classifying {
			t.Errorf("%s is found no more: take it off this list", name)
		}
		if !may("x = " + name + "(y)\n") {
			t.Errorf("a file with %s would not be parsed", name)
		}
	}
	for text, want := range map[string]bool{
		"cross_entropy(x, torch.arange(n))": true, "ce(x, torch.eye(n))": true, "range(n)": false, "torch.arange(n)": false,
		"F.logsigmoid(z @ z.T)": false, "x = z @ z.T\ny = x.softmax(1)": true, "x = z @ z.t()  # margin": true,
		"x = z.softmax(1)": false, "dist.all_gather(x)": true, "gather_features(x)": true, "GatherLayer.apply(x)": true,
		"torch.cdist(x, x)": true, "model(x, return_loss=True)": true, "": false,
	} {
		if got := may(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
