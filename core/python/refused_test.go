package python

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Which argument a program's parser refuses, where its source shows that surely; else none.
func TestRefused(t *testing.T) {
	const script = `import argparse
import lib
def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", "-b", type=int, default=8)
    parser.add_argument("--verbose", action="store_true")
    lib.add(parser)
    return parser.parse_args()
def main():
    args = get_args()
if __name__ == "__main__":
    main()
`
	const lib = "def add(p):\n    p.add_argument('--lr', type=float)\n"
	for name, tt := range map[string]struct {
		from, to string // in the script
		args     string
		want     string // the option, and the one that is meant
	}{
		"known":                {args: "--batch-size 4 --lr=-1 -b4 -b -5 --verb"},
		"another":              {args: "--batch-size 4 --bath-size 2", want: "--bath-size --batch-size"},
		"with its value":       {args: "--bath-size=2", want: "--bath-size --batch-size"},
		"unlike any":           {args: "--epochs 3", want: "--epochs "},
		"of an imported file":  {args: "--lrr 3", want: "--lrr --lr"},
		"one dash":             {args: "-x 3", want: "-x "},
		"a value with a blank": {args: "--lr|-a b|--help"},
		"behind two dashes":    {args: "-- --epochs"},
		"no option":            {args: "epochs 3"},
		"the rest is taken":    {from: "parser.parse_args()", to: "parser.parse_known_args()[0]", args: "--epochs 3"},
		"other arguments":      {from: "parser.parse_args()", to: "parser.parse_args(list())", args: "--epochs 3"},
		"a library adds some":  {from: "lib.add(parser)", to: "other.add(parser)", args: "--epochs 3"},
		"names are computed":   {from: `"--verbose"`, to: `"--" + lib.name`, args: "--epochs 3"},
		"names are unpacked":   {from: `"--verbose"`, to: `*lib.names`, args: "--epochs 3"},
		"the rest is a value":  {from: `action="store_true"`, to: `nargs="..."`, args: "--epochs 3"},
		"only where it is asked": {from: "    args = get_args()", to: "    if lib.asks:\n        args = get_args()",
			args: "--epochs 3"},
		"a failure is caught": {from: "    main()\n",
			to: "    try:\n        main()\n    except BaseException:\n        pass\n", args: "--epochs 3"},
		"never":          {from: "    main()\n", to: "    pass\n", args: "--epochs 3"},
		"another parser": {from: "argparse.ArgumentParser()", to: "lib2.ArgumentParser()", args: "--epochs 3"},
		"a parser of the project's": {from: "argparse.ArgumentParser()", to: "lib.parser()", args: "--epochs 3",
			want: "--epochs "},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "train.py")
		text := script
		if tt.from != "" {
			if text = strings.Replace(script, tt.from, tt.to, 1); text == script {
				t.Fatalf("%s: nothing is replaced", name)
			}
		}
		own := lib + "def parser():\n    from argparse import ArgumentParser\n    return ArgumentParser()\n"
		for file, text := range map[string]string{path: text, filepath.Join(dir, "lib.py"): own} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := strings.Fields(tt.args)
		if strings.Contains(tt.args, "|") {
			args = strings.Split(tt.args, "|")
		}
		option, near := Refused(path, args)
		if got := option + " " + near; got != tt.want && (got != " " || tt.want != "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
