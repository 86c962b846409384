package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseValues(t *testing.T) {
	for text, want := range map[string]string{
		"0.1,0.2":                               "0.1|0.2",
		"1e-4":                                  "1e-4",
		" a , b":                                "a|b",
		`"[1, 2]","x ""y"""`:                    `[1, 2]|x "y"`,
		"1..4":                                  "1|2|3|4",
		"4..1..2":                               "4|2",
		"0.1..0.5..0.2":                         "0.1|0.3|0.5",
		"0..1..0.25":                            "0|0.25|0.5|0.75|1",
		"1e-4..3e-4..1e-4":                      "0.0001|0.0002|0.0003",
		"-2..0":                                 "-2|-1|0",
		"2..-2..2":                              "2|0|-2",
		"5..1..-2":                              "5|3|1",
		"7..7":                                  "7",
		"0.1..0.7..0.2":                         "0.1|0.3|0.5|0.7",
		"0.7..0.1..0.3":                         "0.7|0.4|0.1",
		"-0.3..0.3..0.3":                        "-0.3|0|0.3",
		"1e-6..3e-6..1e-6":                      "1e-06|2e-06|3e-06",
		"0.00001..0.00003..2e-5":                "1e-05|3e-05",
		"1e15..3e16..2e16":                      "1000000000000000|2.1e+16",
		"1.5e3..2.5e3..5e2":                     "1500|2000|2500",
		"1000001e0..1000003e0..1":               "1000001|1000002|1000003",
		"9007199254740992..9007199254740996..2": "9007199254740992|9007199254740994|9007199254740996",
		"9007199254740992..9007199254740994":    "error: too close",
		"0.1..0.10000000000000001..1e-18":       "error: too close",
		"36893488147419103232..36893488147419119616..8192": "36893488147419103232|36893488147419111424|36893488147419119616",
		"0.12345678901234567890..0.2..0.05":                "0.1234567890123456789|0.1734567890123456789",
		"1..5..-1":                                         "error: never ends",
		"1..1e999999999..1":                                "error: too large",
		"1..1e300..1":                                      "error: more than",
		"0..1..1e-300":                                     "error: more than",
		"1..100001":                                        "error: more than",
		`"1..4"`:                                           "1..4",
		"../data":                                          "../data",
		"a..b":                                             "a..b",
		"":                                                 "",
		"a,":                                               "a|",
		`{"a": 1}`:                                         `{"a": 1}`,
		"0.1..0.5":                                         "error: step",
		"1..1000000":                                       "error: more than",
		"1..5..0":                                          "error: not 0",
		`"a`:                                               "error: not closed",
		`"a"b`:                                             "error: comma",
		"log:0..1":                                         "error: above 0",
		"log:1e-5..1e-1":                                   "log 1e-05 0.1",
		"uniform:1..0":                                     "error: larger",
		"int:1..4":                                         "int 1 4",
		"int:1.5..4":                                       "error: whole",
		"uniform:a..b":                                     "error: numbers",
		"1,uniform:0..1":                                   "error: alone",
		"uniform:-1e308..1.7e308":                          "error: numbers",
	} {
		v, err := ParseValues(text)
		got := strings.Join(v.List, "|")
		if v.Draw != nil {
			got = fmt.Sprint(v.Draw.How, " ", v.Draw.From, " ", v.Draw.To)
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if after, is := strings.CutPrefix(want, "error: "); is && err != nil && strings.Contains(got, after) {
			continue
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// space reads flags as the command does: "grid K=V", "zip …", "seeds …", "where …", "only K:COND",
// "random N SEED".
func space(t interface{ Fatal(...any) }, lines ...string) (s Space) {
	for _, line := range lines {
		kind, text, _ := strings.Cut(line, " ")
		var d Dimension
		var err error
		switch kind {
		case "grid":
			d, err = ParseGrid(text)
			s.Dimensions = append(s.Dimensions, d)
		case "zip":
			d, err = ParseZip(text)
			s.Dimensions = append(s.Dimensions, d)
		case "seeds":
			d, err = ParseGrid(text)
			s.Seeds = append(s.Seeds, d)
		case "where":
			s.Where = append(s.Where, Condition(text))
		case "only":
			key, where, _ := strings.Cut(text, ":")
			s.Only = append(s.Only, Only{key, Condition(where)})
		case "random":
			fmt.Sscan(text, &s.Random, &s.Seed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func rows(s Space) string {
	all, err := s.Assignments()
	if err != nil {
		return "error: " + err.Error()
	}
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, "; ")
}

func TestAssignments(t *testing.T) {
	for name, tt := range map[string]struct{ space, want string }{
		"product, the last fastest": {"grid a=1,2|grid b=x,y", "a=1 b=x; a=1 b=y; a=2 b=x; a=2 b=y"},
		"pairs":                     {"zip a=1,2;b=x,y|grid c=0,1", "a=1 b=x c=0; a=1 b=x c=1; a=2 b=y c=0; a=2 b=y c=1"},
		"a separator in quotes":     {`zip a="1;2",3;b=x,y`, "a=1;2 b=x; a=3 b=y"},
		"seeds": {"grid a=1,2|seeds --seed=0..1",
			"a=1 --seed=0; a=1 --seed=1; a=2 --seed=0; a=2 --seed=1"},
		"where": {"grid a=1,2,10|grid b=2,9|where a < {b} and a != 1 or b=9",
			"a=1 b=9; a=2 b=9; a=10 b=9"},
		"numbers and text": {"grid a=0.10,x|where a = 0.1", "a=0.10"},
		"only": {"grid opt=sgd,adam|grid m=0.9,0.99|only m:opt=sgd",
			"opt=sgd m=0.9; opt=sgd m=0.99; opt=adam"},
		"only, then where":     {"grid opt=sgd,adam|grid m=0.9,0.99|only m:opt=sgd|where m>0.9", "opt=sgd m=0.99"},
		"the same value twice": {"grid a=1,1", "a=1"},
		"random":               {"grid a=1..100|random 4 7", "a=66; a=6; a=79; a=21"},
		"random with seeds":    {"grid a=1..9|seeds s=0,1|random 2 1", "a=8 s=0; a=8 s=1; a=9 s=0; a=9 s=1"},
		"random, used up":      {"grid a=1,2|grid b=x|random 9 1|where a=1", "a=1 b=x"},
		"nothing":              {"", ""},
		"no row is left":       {"grid a=1|where a=2", "error: no row fulfils the conditions"},
		"a key twice":          {"grid a=1|grid a=2", "error: a has values twice"},
		"unequal pairs":        {"grid b=1", "b=1"},
		"draw without random": {"grid a=uniform:0..1", "error: a is a range to draw from: give the number of rows " +
			"with --random"},
		"unknown key": {"grid a=1|where b=1", `error: the condition "b=1": no key b has values`},
		"not comparable": {"grid a=x|where a<1",
			`error: the condition "a<1": x < 1 compares what are not two numbers`},
		"no condition": {"grid a=1|where a",
			`error: "a" is not a condition: write KEY OP VALUE, such as "lr < 0.1"`},
		"a key named name": {"grid name={name}", "name={name}"},
		"random seeds": {"grid a=1,2|seeds s=int:1..3|random 1",
			"error: s: seeds are a list or a range of whole numbers"},
		"too many":            {"grid a=1..1000|grid b=1..1000", "error: the sweep has more than 100000 trials"},
		"only without values": {"grid a=1|only b:a=1", "error: b has a condition but no values"},
	} {
		if got := rows(space(t, strings.Split(tt.space, "|")...)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if _, err := ParseZip("a=1,2;b=1"); err == nil || !strings.Contains(err.Error(), "a has 2 values and b has 1") {
		t.Errorf("unequal pairs: %v", err)
	}
	if _, err := ParseZip("a=1;b=log:1..2"); err == nil {
		t.Error("a drawn range in pairs")
	}
}

// A longer random sweep of the same seed begins with the rows of the shorter one, and has no row twice.
func TestRandomIsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := []string{"grid lr=log:1e-5..1e-1", "grid b=1..4", "zip x=1,2;y=3,4"}
		for _, extra := range []string{"where b != 3", "only x:b>2", "seeds s=0,1"} {
			if rapid.Bool().Draw(t, extra) {
				lines = append(lines, extra)
			}
		}
		s := space(t, lines...)
		s.Seed = rapid.Uint64().Draw(t, "seed")
		s.Random = rapid.IntRange(1, 20).Draw(t, "random")
		short, err := s.Assignments()
		if err != nil {
			t.Fatal(err)
		}
		s.Random += rapid.IntRange(0, 20).Draw(t, "more")
		long, err := s.Assignments()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, a := range long {
			if seen[a.id()] {
				t.Fatalf("twice: %v", a)
			}
			seen[a.id()] = true
			if i < len(short) && a.id() != short[i].id() {
				t.Fatalf("row %d is %v, and was %v in the shorter sweep", i, a, short[i])
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a=1,2", `a="x"";b=1`, "a=1..5..0.1", "a=log:1e-9..1", "lr < {b} and x=1 or y",
		"--a=-1..-5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseGrid(text); err == nil {
			s := Space{Dimensions: []Dimension{d}, Random: 2}
			rows, err := s.Assignments()
			if err == nil && len(rows) > 2 {
				t.Errorf("%d rows of 2", len(rows))
			}
		}
		if d, err := ParseZip(text); err == nil {
			for _, v := range d.Values {
				if len(v.List) != len(d.Values[0].List) {
					t.Errorf("unequal: %v", d)
				}
			}
		}
		Condition(text).holds(Assignment{{"a", "1"}})
		ReadCommands(strings.NewReader(text))
	})
}

func TestRender(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		values  string
		want    string
	}{
		"an option where it stands": {"python train.py --lr 1 --x 2", "--lr=0.1", "python train.py --lr 0.1 --x 2"},
		"with an equals sign":       {"python train.py --lr=1", "--lr=0.1", "python train.py --lr=0.1"},
		"added":                     {"python train.py", "--lr=0.1", "python train.py --lr 0.1"},
		"the last one counts":       {"python train.py --lr 1 --lr 2", "--lr=3", "python train.py --lr 3"},
		"a negative value":          {"python train.py --lr -1 x", "--lr=-2", "python train.py --lr=-2 x"},
		"a negative value, added":   {"python train.py", "--lr=-2", "python train.py --lr=-2"},
		"python's own option":       {"python -m train -m 1", "-m=2", "python -m train -m 2"},
		"a launcher's option": {"torchrun --nproc-per-node 2 t.py --nproc-per-node 1", "--nproc-per-node=4",
			"torchrun --nproc-per-node 2 t.py --nproc-per-node 4"},
		"inside a shell's string": {"bash|-c|cd x && python t.py --lr 1", "--lr=2", "bash|-c|cd x && python t.py --lr 2"},
		"a shell's pipe":          {"bash|-c|a & b", "--lr=2", "error"},
		"no python":               {"./t --lr 1", "--lr=2", "./t --lr 2"},
		"before --":               {"python t.py --x 1 -- a", "--lr=2", "python t.py --x 1 --lr 2 -- a"},
		"before and behind --":    {"python t.py --lr 1 -- --lr 2", "--lr=3", "error"},
		"behind -- as typed":      {"python t.py -- --lr 1", "--lr=2", "python t.py -- --lr 2"},
		"several values":          {"python t.py --lr 1 2", "--lr=3", "error"},
		"a word after the value":  {"python t.py --lr 1 x", "--lr=3", "python t.py --lr 3 x"},
		"the last of both forms":  {"python t.py --lr=1 --lr 2", "--lr=3", "python t.py --lr 3"},
		"overrides":               {"./t --lr a=1 --lr b=2", "--lr=c=3", "error"},
		"a switch before another": {"./t --a --b", "--a=2", "./t --a 2 --b"},
		"placeholder":             {"python t.py lr={lr} {lr}", "lr=1", "python t.py lr=1 1"},
		"an option's placeholder": {"python t.py --lr {--lr}", "--lr=1", "python t.py --lr 1"},
		"a recipe key": {"python t.py -opt x.yml", "train.lr=1|a=b",
			"python t.py -opt x.yml set train.lr=1 set a=b"},
		"the environment":          {"./t", "env:LR=1", "./t env LR=1"},
		"trial and name":           {"./t --out runs/{name}/{trial}", "name2=n{trial}", "./t --out runs/s-3/3 set name2=n3"},
		"a key in another's value": {"./t", "--out=lr{lr}|lr=1", "./t --out lr1"},
		"by way of another":        {"./t", "--a=x{b}|b=y{c}|c=1,{trial}", "./t --a xy1,3"},
		"a recipe's own name":      {"./t --n {name}", "name=x-{name}", "./t --n s-3 set name=x-s-3"},
		"what is no placeholder":   {"./t {x} {}", "lr=1", "./t {x} {} set lr=1"},
	} {
		sep := " "
		if strings.Contains(tt.command, "|") {
			sep = "|"
		}
		var a Assignment
		for _, text := range strings.Split(tt.values, "|") {
			key, value, _ := strings.Cut(text, "=")
			a = append(a, Setting{key, value})
		}
		inv, err := Template{Sweep: "s", Command: strings.Split(tt.command, sep), Dir: "/w"}.Render(Trial{Number: 3,
			Assignment: a})
		if err != nil {
			if !strings.HasPrefix(tt.want, "error") || !strings.Contains(err.Error(), "put {--lr} ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		got := strings.Join(inv.Args, sep)
		for _, s := range inv.Set {
			got += " set " + s
		}
		for _, s := range inv.Env {
			got += " env " + s
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A value that names itself, or grows without an end, is an error: the option would be lost, or the memory.
func TestEndless(t *testing.T) {
	grows := Assignment{}
	for i := range 40 {
		grows = append(grows, Setting{fmt.Sprint("k", i), fmt.Sprintf("{k%d}{k%d}", i+1, i+1)})
	}
	grows = append(grows, Setting{"k40", "x"})
	for _, a := range []Assignment{{{"--x", "{--x}"}}, {{"--a", "{--b}"}, {"--b", "x{--a}"}},
		{{"a", "{b}"}, {"b", "{c}"}, {"c", "{a}"}}, grows} {
		inv, err := Template{Sweep: "s", Command: []string{"./t"}}.Render(Trial{Number: 1, Assignment: a})
		if err == nil {
			t.Errorf("%.3v: %.100v", a, inv)
		}
	}
}

func TestReadCommands(t *testing.T) {
	if got, err := ReadCommands(strings.NewReader("\ufefftrue\r\n")); err != nil || got[0].Command[0] != "true" {
		t.Errorf("a byte order mark: %v, %v", got, err)
	}
	if got, err := ReadCommands(strings.NewReader("echo a\x00b\n")); err == nil {
		t.Errorf("a zero byte: %v", got)
	}
	text := "# rows\n\npython t.py --lr 1 'a b' \"c d\"\ntrue | cat\nX=1 ./t\necho $HOME\necho ~/x *.py\n./t > out\na; " +
		"b\n./t {name}\n"
	trials, err := ReadCommands(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"python", "t.py", "--lr", "1", "a b", "c d"}, {"sh", "-c", "true | cat"}, {"sh", "-c", "X=1 ./t"},
		{"sh", "-c", "echo $HOME"}, {"sh", "-c", "echo ~/x *.py"}, {"sh", "-c", "./t > out"}, {"sh", "-c", "a; b"}, {"./t",
			"{name}"}}
	for i, w := range want {
		if i >= len(trials) || !slices.Equal(trials[i].Command, w) || trials[i].Number != i+1 {
			t.Fatalf("got %+v, want %q", trials, want)
		}
	}
	for _, bad := range []string{"", "# x", "echo 'a"} {
		if _, err := ReadCommands(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"lr-1": true, "a.b@c": true, "": false, "last": false, "..": false,
		"a/b": false, "-x": false, "a b": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
