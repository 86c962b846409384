package identity

import (
	"testing"
)

// Data that the code itself names count as those of the command; what a program leaves, or the command chooses
// otherwise, does not.
func TestConstants(t *testing.T) {
	for name, c := range map[string]struct {
		source, file string
		args         []string
		counts       bool
	}{
		"opened":                  {"open('train.csv')", "train.csv", nil, true},
		"loaded":                  {"x = np.load('data/x.npy')", "data/x.npy", nil, true},
		"listed":                  {"glob.glob('data/train/*.png')", "data/train/1.png", nil, true},
		"a constant":              {"DATA = Path('data')\nopen(DATA / 'a')", "data/a", nil, true},
		"of a class":              {"class Cfg:\n    data_dir: str = 'set'", "set/a", nil, true},
		"of a class, typed":       {"class Cfg:\n    data_dir: str = 'set'", "set/a", []string{"--data-dir", "other"}, false},
		"an option's default":     {"p.add_argument('--root', default='set')", "set/a", nil, true},
		"another is typed":        {"p.add_argument('--root', default='set')", "set/a", []string{"--root=other"}, false},
		"beside the file":         {"x = open(os.path.join(os.path.dirname(__file__), 'a', 'b.pkl'))", "a/b.pkl", nil, true},
		"above the file":          {"x = Path(__file__).parent / 'a' / 'b.pkl'", "a/b.pkl", nil, true},
		"written":                 {"open('notes.txt', 'a')", "notes.txt", nil, false},
		"read and written":        {"open('seen.txt')\nopen('seen.txt', 'w')", "seen.txt", nil, false},
		"a state":                 {"torch.load('checkpoints/a.pt')", "checkpoints/a.pt", nil, false},
		"a default for states":    {"p.add_argument('--resume', default='w/a.pt')", "w/a.pt", nil, false},
		"a default for outputs":   {"p.add_argument('--save-dir', default='kept')", "kept/a", nil, false},
		"figures":                 {"pd.read_csv('scores.csv')", "scores.csv", nil, false},
		"a word":                  {"p.add_argument('--mode', default='train')", "train/a", nil, false},
		"in a comment":            {"# open('train.csv')", "train.csv", nil, false},
		"a recipe by its name":    {"open(f'configs/{a.net}.yaml')", "configs/big.yaml", []string{"--net", "big"}, true},
		"another recipe":          {"open(f'configs/{a.net}.yaml')", "configs/big.yaml", []string{"--net", "small"}, false},
		"a base of Python's":      {"", "c/b.py", []string{"c/a.py"}, true},
		"modules of another root": {"sys.path.insert(0, 'common')\nimport util", "common/util.py", nil, true},
		"above, and beside": {"sys.path.append(os.path.join(os.path.dirname(__file__), 'x'))\nimport util", "x/util.py",
			nil, true},
		"LMDB's readers": {"open('set/data.mdb')\nlmdb.open('set')", "set/lock.mdb", nil, false},
	} {
		p := newProject(t, map[string]string{"train.py": c.source, c.file: "a = 1\n",
			"c/a.py": "_base_ = [\n    './b.py',\n]\n", "set/data.mdb": "x"},
			append([]string{"python3", "train.py"}, c.args...)...)
		was := p.take()
		p.write(c.file, "a = 2\n")
		for _, d := range Compare(was, p.take(), Past{Left: was.Again(p.s)}) { // the run itself has written it
			if d.Kind == Data {
				t.Errorf("%s: %v", name, d)
			}
		}
		p.write(c.file, "a = 1\n")
		past := Past{Left: was.Again(p.s)}
		p.write(c.file+".other", "of another program")
		p.write(c.file, "a = 3\n")
		if got := said(Compare(was, p.take(), past)); (len(got) > 0) != c.counts {
			t.Errorf("%s: %v", name, got)
		}
	}
}
