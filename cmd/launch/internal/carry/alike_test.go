package carry

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
)

func TestSameness(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	of := func(args string, more ...string) map[string]string {
		j := &job.Job{Command: job.Command{Dir: dir, Args: append(strings.Fields("python train.py "+args), more...)}}
		if len(more) > 0 {
			j.Signs.States = []string{more[len(more)-1] + "/*.pt"}
		}
		return agreed(&run.Run{Job: j, Ladders: &ladder.Set{}})
	}
	for _, n := range []string{"train.py", "a.yaml", "inner.yaml"} {
		write(n, "x: 1")
	}
	for _, tt := range []struct{ a, b, want string }{
		{"--lr 0.1", "--lr 0.1", ""},
		{"--lr 0.1", "--lr 0.9", "--lr"},
		{"--lr=0.1", "--lr=0.9 --seed 3", "--lr --seed"},
		{"--lr 1 --seed 2", "--seed 2 --lr 1", ""},
		{"--lr 1 --lr 2", "--lr 2", ""},
		{"--token s3cret", "--token other", "--token"},
		{"--memory-token 4", "--memory-token 8", "--memory-token"},
		{"--shift -1", "--shift -2", "--shift"},
		{"--sizes 1 2", "--sizes 1 3", "--sizes"},
		{"optim.lr=1", "optim.lr=2", "optim.lr"},
		{"fit", "test", "argument 1"},
		{"--rank 0 --node_rank=0", "--rank 1 --node_rank=1", ""},
	} {
		a, b := of(tt.a), of(tt.b)
		if got := strings.Join(differences(a, b), " "); got != tt.want {
			t.Errorf("%s against %s: %q, want %q", tt.a, tt.b, got, tt.want)
		}
		for _, digest := range a {
			if strings.Contains(digest, "s3cret") {
				t.Error("a secret is not hashed")
			}
		}
	}
	if got := differences(of("--out", "runs/n0"), of("--out", "runs/n1")); len(got) > 0 {
		t.Errorf("the folders of states differ: %q", got)
	}
	was, other := of("--config a.yaml"), of("--config=a.yaml")
	if got := differences(was, other); len(got) > 0 {
		t.Errorf("the same recipe: %q", got)
	}
	write("a.yaml", "x: 2")
	if got := differences(was, of("--config a.yaml")); !slices.Equal(got, []string{"a.yaml"}) {
		t.Errorf("another recipe of the same name: %q", got)
	}
}

func differences(a, b map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
