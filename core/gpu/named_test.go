package gpu

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// A card has one figure, whoever names it: a person, nvidia-smi, torch.
func TestNamed(t *testing.T) {
	for name, want := range map[string]struct {
		card string
		mib  unit.Bytes
	}{
		"rtx3090": {"RTX 3090", 24123}, "RTX 3090": {"RTX 3090", 24123}, "NVIDIA GeForce RTX 3090": {"RTX 3090", 24123},
		"3090": {"RTX 3090", 24123}, "rtx-3090-ti": {"RTX 3090 Ti", 24110}, "RTX3090TI": {"RTX 3090 Ti", 24110},
		"RTX 3060": {"RTX 3060", 11906}, "RTX 3060 8GB": {"RTX 3060 8GB", 8192},
		"Tesla T4": {"T4", 14909}, "A10": {"A10", 22589}, "NVIDIA A10G": {"A10G", 22587},
		"A100-SXM4-80GB": {"A100 80GB", 81039}, "NVIDIA A100 80GB PCIe": {"A100 80GB", 81039},
		"A100 80G": {"A100 80GB", 81039}, "a100 80 gb": {"A100 80GB", 81039}, "A100-80GiB": {"A100 80GB", 81039},
		"NVIDIA A100-PCIE-40GB": {"A100 40GB", 40335}, "A100-40GB": {"A100 40GB", 40335},
		"Tesla V100-SXM2-32GB": {"V100 32GB", 32494}, "V100-PCIE-16GB": {"V100 16GB", 16130},
		"NVIDIA H100 80GB HBM3": {"H100 80GB", 80995}, "NVIDIA H100 PCIe": {"H100 PCIe", 81008},
		"H100 NVL": {"H100 NVL", 95248}, "NVIDIA H200": {"H200", 143156},
		"A6000": {"RTX A6000", 48537}, "NVIDIA RTX A6000": {"RTX A6000", 48537},
		"NVIDIA RTX 6000 Ada Generation": {"RTX 6000 Ada", 48497}, "RTX 6000 Ada ECC": {"RTX 6000 Ada ECC", 45496},
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": {"RTX PRO 6000 Server", 97250},
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":             {"A100 1g.5gb", 4864}, "A100 1g.10gb": {"A100 1g.10gb", 9728},
		"H100 3g.40gb": {"H100 3g.40gb", 40448}, "AMD Instinct MI300X": {"MI300X", 196592},
		"Radeon RX 7900 XTX": {"RX 7900 XTX", 24560}, "7900 xtx": {"RX 7900 XTX", 24560},
		"Intel(R) Arc(TM) A770 Graphics": {"Arc A770", 15473}, "Intel(R) Data Center GPU Max 1550": {"Max 1550", 65536},
		"RTX 3050": {"RTX 3050", 8192}, "NVIDIA GeForce RTX 4060 Laptop GPU": {"RTX 4060 Laptop", 7806},
		"A100": {}, "V100": {},
		"H100": {"H100 80GB", 80995}, "NVIDIA H100 SXM5": {"H100 80GB", 80995},
		"GTX 1060": {}, "RTX 4060 Ti": {}, "NVIDIA": {},
		"": {}, "3061": {},
		"RTX 3060 x": {}, "RTX 2080 Laptop GPU": {}, "12GiB": {}, "24": {}, "RTX 6000": {}, "RTX": {},
	} {
		got, ok := Named(name)
		if got.Name != want.card || got.Bytes()/unit.MiB != want.mib || ok != (want.card != "") {
			t.Errorf("%q is %q of %d MiB, %v; want %q of %d MiB", name, got.Name, got.Bytes()/unit.MiB, ok, want.card, want.mib)
		}
	}
}

// A name that leaves the size open lists the names to type; a mistyped one has the nearest first.
func TestRefused(t *testing.T) {
	for name, want := range map[string]struct{ sizes, near string }{
		"A100": {"A100 40GB, A100 80GB", ""}, "V100": {"V100 16GB, V100 32GB", ""},
		"nvidia a100-sxm4": {"A100 40GB, A100 80GB", ""},
		"H100":             {"H100 80GB, H100 PCIe, H100 NVL", ""}, "GTX 1060": {"GTX 1060 3GB, GTX 1060 6GB", ""},
		"RTX 4060 Ti":  {"RTX 4060 Ti 8GB, RTX 4060 Ti 16GB", ""},
		"RTX PRO 6000": {"RTX PRO 6000 Server, RTX PRO 6000 Workstation", ""},
		"RTX 3061":     {"", "RTX 3060"}, "MI300": {"", "MI300X"}, "RTX 6000": {"", "Quadro RTX 6000"},
		"H10O PCIe": {"", "H100 PCIe"}, "RTX 2080 Laptop GPU": {"", "RTX 5080 Laptop"}, "geforce rtx 409": {"", "RTX 4090"},
		"much": {"", ""}, "RTX 1": {"", ""}, "": {"", ""},
	} {
		if got := strings.Join(Sizes(name), ", "); want.near == "" && got != want.sizes {
			t.Errorf("%q leaves %q open, want %q", name, got, want.sizes)
		}
		near := Near(name)
		if none := want.sizes == "" && want.near == ""; none && len(near) > 0 ||
			want.near != "" && (len(near) == 0 || near[0] != want.near) {
			t.Errorf("%q is near %q, want %q first", name, near, want.near)
		}
	}
}

// Every card has a figure, one key, and a figure below its nominal size; most have a source.
func TestCards(t *testing.T) {
	nominal, keys := 0, map[string]string{}
	for _, c := range cards {
		if b, err := unit.Parse(c.Sees); err != nil || b < unit.GiB {
			t.Errorf("%s: %q, %v", c.Name, c.Sees, err)
		}
		k := key(words(c.Name))
		if keys[k] != "" {
			t.Errorf("%s and %s are both %q", keys[k], c.Name, k)
		}
		keys[k] = c.Name
		if got, ok := Named(c.Name); !ok || got != c {
			t.Errorf("%s is found as %v", c.Name, got)
		}
		if c.Source == "" {
			nominal++
		}
		if w := words(c.Name); size(w[len(w)-1]) { // its name has its nominal size
			if n, _ := unit.Parse(w[len(w)-1]); c.Bytes() > n || c.Source != "" && c.Bytes() == n {
				t.Errorf("PyTorch sees %v of a %s", c.Bytes(), c.Name)
			}
		}
	}
	if len(cards)-nominal < 60 || nominal > 20 {
		t.Errorf("%d names, %d of them without a source", len(cards), nominal)
	}
	t.Logf("%d names, %d of them without a source", len(cards), nominal)
	if from := cards[slices.IndexFunc(cards, func(c Card) bool { return c.Name == "RTX 3060" })].From(); from !=
		"PyTorch sees 11.63 GiB of it; other variants: RTX 3060 8GB" {
		t.Error(from)
	}
	if c, _ := Named("RTX 3050"); c.From() != "nominal size, of which PyTorch sees less; other variants: RTX 3050 6GB" {
		t.Error(c.From())
	}
}

var update = flag.Bool("update", false, "write the list of cards in docs/reference.md anew")

// The page lists the cards that there are.
func TestPage(t *testing.T) {
	const path, begin = "../../docs/reference.md", "<!-- cards: go test ./core/gpu -run TestPage -update -->\n"
	const end = "<!-- end of cards -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	listed, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no list of cards", path)
	}
	var now strings.Builder
	width := 0
	for i, c := range cards {
		entry := fmt.Sprintf("%s %.2f", c.Name, float64(c.Bytes())/float64(unit.GiB))
		if c.Source == "" {
			entry = fmt.Sprintf("%s (%d)", c.Name, c.Bytes()/unit.GiB)
		}
		if width += len(entry) + 3; i > 0 && width > 120 {
			now.WriteString(" ·\n")
			width = len(entry)
		} else if i > 0 {
			now.WriteString(" · ")
		}
		now.WriteString(entry)
	}
	now.WriteString("\n")
	switch {
	case listed == now.String():
	case !*update:
		t.Errorf("%s lists other cards: go test ./core/gpu -run TestPage -update", path)
	default:
		if err := os.WriteFile(path, []byte(before+begin+now.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each card of the table is of its maker's kind.
func TestKindOfNamed(t *testing.T) {
	count := map[string]int{}
	for _, c := range cards {
		count[c.Kind()]++
	}
	for name, want := range map[string]string{"RTX 3090": CUDA, "RX 7900 XTX": HIP, "MI300X": HIP, "PRO R9700": HIP,
		"Arc A770": XPU, "Max 1550": XPU, "RTX PRO 6000": CUDA} {
		if c, ok := Named(name); ok && c.Kind() != want {
			t.Errorf("%s is %s", name, c.Kind())
		}
	}
	if count[HIP] < 16 || count[XPU] < 3 || (Card{}).Kind() != CUDA {
		t.Errorf("%v", count)
	}
}

// A named card of NVIDIA's has the compute capability of its generation, and where its source names one, that.
func TestCapability(t *testing.T) {
	said := regexp.MustCompile(`compute capability (\d+\.\d)|major=(\d+), minor=(\d)`)
	checked := 0
	for _, c := range cards {
		got := c.Capability()
		if c.Kind() != CUDA {
			if got != "" {
				t.Errorf("%s has the compute capability %s", c.Name, got)
			}
			continue
		}
		if got == "" {
			t.Errorf("%s has no compute capability", c.Name)
		}
		if m := said.FindStringSubmatch(c.Source); m != nil {
			checked++
			want := m[1]
			if want == "" {
				want = m[2] + "." + m[3]
			}
			if got != want {
				t.Errorf("%s: %s, and its source says %s", c.Name, got, want)
			}
		}
	}
	for name, want := range map[string]string{"RTX 5000 Ada": "8.9", "RTX 2000 Ada": "8.9", "RTX 5090": "12.0"} {
		if got := (Card{Name: name}).Capability(); got != want {
			t.Errorf("%s has %q, want %s: cards of another generation begin so, too", name, got, want)
		}
	}
	if checked < 20 {
		t.Errorf("%d sources name a compute capability", checked)
	}
}
