package states

import (
	"path/filepath"
	"testing"
)

// A number in a name is a step if it is named so, else an epoch or the last number. A decimal and a figure are neither.
func TestNumberOf(t *testing.T) {
	for name, want := range map[string]numbering{
		"0003.pt":                        {true, 0, 3, "#.pt"},
		"checkpoint-16":                  {true, 0, 16, "checkpoint-#"},
		"ckpt-loss0.33.pt":               {false, 0, 0, "ckpt-loss~.pt"},
		"acc-0.91.pt":                    {false, 0, 0, "acc-~.pt"},
		"val_loss=1.23.ckpt":             {false, 0, 0, "val_loss=~.ckpt"},
		"psnr27.pth":                     {false, 0, 0, "psnr~.pth"},
		"top1-76.pth":                    {false, 0, 0, "top~-~.pth"},
		"ckpt_27.pth":                    {true, 0, 27, "ckpt_#.pth"},
		"epoch=3-step=300-loss=0.4.ckpt": {true, 0, 300, "epoch=#-step=#-loss=~.ckpt"},
		"loss=0.40-step=300.ckpt":        {true, 0, 300, "loss=~-step=#.ckpt"},
		"epoch=3-val_loss=1.23.ckpt":     {true, 0, 3, "epoch=#-val_loss=~.ckpt"},
		"epoch_3_1200.pth":               {true, 3, 1200, "epoch_#_#.pth"},
		"iter_1000.pth":                  {true, 0, 1000, "iter_#.pth"},
		"global_step40":                  {true, 0, 40, "global_step#"},
		"model_5.h5":                     {true, 0, 5, "model_#.h5"},
		"gpu2-0007.pt":                   {true, 0, 7, "gpu2-#.pt"},
		"last.pt":                        {false, 0, 0, "last.pt"},
		"99999999999999999999.pt":        {false, 0, 0, "~.pt"},
	} {
		if got := numberOf("runs/a/" + name); got != (numbering{want.known, want.epoch, want.step, "runs/a/" + want.shape}) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if got := numberOf(name); got != want {
			t.Errorf("%s without a folder: %+v, want %+v", name, got, want)
		}
	}
}

func TestIsChosen(t *testing.T) {
	for path, want := range map[string]bool{
		"/w/runs/a/checkpoint-best.pth": true, "/w/runs/a/model_ema_3.pt": true, "/w/runs/a/last_best.pt": true,
		"/w/runs/a/FINAL.pt": true, "/w/runs/best/3.pt": true, "/w/runs/a/checkpoint-3.pth": false,
		"/w/runs/a/schema3.pt": false, "/w/runs/a/bestiary-3.pt": false, "/best/runs/a/3.pt": false,
	} {
		if got := isChosen(path, "runs/*/*.p*"); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if isChosen("/w/runs/best.pt", "runs/best.pt") {
		t.Error("a glob without a pattern means the file that it names")
	}
}

// Which state is the newest: the order of writing counts, unless both what was printed and the names are against it.
func TestOrder(t *testing.T) {
	rank := func(names ...string) func(string) int64 {
		return func(path string) int64 {
			for i, n := range names {
				if n == filepath.Base(path) {
					return int64(i + 1)
				}
			}
			return 0
		}
	}
	turns := rank("2.pt", "3.pt", "1.pt")
	steps, figures := []string{"1.pt", "2.pt", "3.pt"}, []string{"l0.9.pt", "l0.5.pt", "l0.7.pt"}
	for name, tt := range map[string]struct {
		names []string // in the order of their times
		e     Evidence
		want  string
	}{
		"by their numbers":        {steps, Evidence{}, "3.pt"},
		"by their times":          {figures, Evidence{}, "l0.7.pt"},
		"seen":                    {figures, Evidence{Order: rank("l0.7.pt", "l0.9.pt", "l0.5.pt")}, "l0.5.pt"},
		"one was not seen":        {steps, Evidence{Order: rank("3.pt", "2.pt")}, "3.pt"},
		"told":                    {figures, Evidence{Told: rank("l0.7.pt", "l0.9.pt", "l0.5.pt")}, "l0.5.pt"},
		"names that take turns":   {steps, Evidence{Order: turns, Told: turns}, "1.pt"},
		"an old one, once more":   {steps, Evidence{Order: turns, Told: rank(steps...)}, "3.pt"},
		"a line at the end names": {steps, Evidence{Order: rank(steps...), Told: rank("3.pt", "2.pt", "1.pt")}, "3.pt"},
	} {
		dir := t.TempDir()
		var own []candidate
		for i, n := range tt.names {
			path := write(t, filepath.Join(dir, n), "x")
			own = append(own, candidate{path, Mark{Modified: int64(i)}, numberOf(path)})
		}
		sortByName(own)
		if tt.e.order(own); filepath.Base(own[0].path) != tt.want {
			t.Errorf("%s: %s, want %s", name, filepath.Base(own[0].path), tt.want)
		}
	}
}

// The best weights are gone on from only if there is nothing else, and the states before the newest are known, too.
func TestEarlier(t *testing.T) {
	dir, signs := t.TempDir(), signsFor("runs/*.pt")
	held := Evidence{Held: []string{dir}}
	write(t, dir+"/runs/best.pt", "x")
	if f := Newest(folder(dir), signs, Listing{}, held); f.State == nil || filepath.Base(f.State.Path) != "best.pt" {
		t.Errorf("the only state is %+v", f.State)
	}
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		write(t, dir+"/runs/"+n+".pt", "state "+n)
	}
	write(t, dir+"/runs/11.pt", "")
	write(t, dir+"/runs/best.pt", "the newest, by its time")
	f := Newest(folder(dir), signs, Listing{}, held)
	f.Identify()
	if f.State == nil || filepath.Base(f.State.Path) != "10.pt" || len(f.Earlier) != mostEarlier ||
		filepath.Base(f.Earlier[0].Path) != "9.pt" || f.Earlier[6].Digest == "" || f.State.Digest == f.Earlier[0].Digest {
		t.Errorf("found %+v, before it %+v", f.State, f.Earlier)
	}
}

// What the program wrote where no glob finds it is known, if it has the form of a state.
func TestElsewhere(t *testing.T) {
	for line, want := range map[string]string{
		"saved runs/exp/weights/7.pt": "/w/runs/exp/weights/7.pt", "saved runs/exp/7.pt": "", "saved x/weights.bin": "",
		"saved /else/7.pt.": "/else/7.pt", "saved runs/exp/weights/best.pt": "", "loading, saved runs/exp/weights/7.pt": "",
	} {
		log := write(t, t.TempDir()+"/log", "step 1\n"+line+"\r\nstep 2\n")
		if got := Elsewhere(opened(log), "/w", signsFor("runs/*/*.pt")); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// The line that a program printed last tells which state is the newest.
func TestTold(t *testing.T) {
	log := write(t, t.TempDir()+"/log", "saved runs/a/1.pt\nsaved runs/a/2.pt\nsaved runs/a/1.pt\nloading runs/a/3.pt\n")
	told := Told(opened(log), "/w", signsFor("runs/*/*.pt"))
	one, two, three := told("/w/runs/a/1.pt"), told("/w/runs/a/2.pt"), told("/w/runs/a/3.pt")
	if one <= two || two == 0 || three != 0 {
		t.Errorf("told at %d, %d and %d", one, two, three)
	}
}

// Newer are the states of a run's series that were written since, and no others.
func TestNewer(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	mine := write(t, dir+"/mine-3.pt", "3")
	write(t, dir+"/other-1.pt", "1")
	globs, known := []string{"*.pt"}, knownStates(mine)
	if err := WriteAfter(own, List(folder(dir), globs)); err != nil {
		t.Fatal(err)
	}
	newer := func(any bool) (names []string) {
		for _, path := range Newer(folder(dir), globs, own, known, any) {
			names = append(names, filepath.Base(path))
		}
		return names
	}
	if got := newer(true); got != nil {
		t.Errorf("nothing was written, and %q are newer", got)
	}
	write(t, mine, "changed, which its digest shows")
	write(t, dir+"/other-2.pt", "2")
	if got := newer(false); got != nil {
		t.Errorf("another's names: %q are newer", got)
	}
	write(t, dir+"/mine-4.pt", "4")
	if got := newer(false); len(got) != 1 || got[0] != "mine-4.pt" {
		t.Errorf("newer are %q", got)
	}
	if got := newer(true); len(got) != 2 {
		t.Errorf("where the program chooses itself, newer are %q", got)
	}
	if got := Newer(folder(dir), globs, t.TempDir(), known, true); got != nil {
		t.Errorf("a record of an older launch: %q", got)
	}
}
