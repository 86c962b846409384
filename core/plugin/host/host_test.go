package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
)

// fake is a plugin that answers by what it is asked.
type fake struct{}

// anticipated is what the plugin's process was told to expect, one by one.
var anticipated []string

func (fake) Anticipate(c job.Command) { anticipated = append(anticipated, strings.Join(c.Args, " ")) }

func (fake) Manifest() plugin.Manifest { return plugin.Manifest{Name: "fake"} }

func (fake) Recognize(ctx context.Context, c job.Command) (*job.Job, error) {
	switch c.Args[0] {
	case "other":
		return nil, plugin.ErrNotMine
	case "wrong":
		return nil, errors.New("batch is ten")
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "print": // what a plugin prints must not disturb what it says
		os.Stdout.WriteString(strings.Repeat("noise\n", 10000))
	}
	name := strings.Join(anticipated, ", ")
	if env := slices.DeleteFunc(os.Environ(), func(e string) bool { return !strings.Contains(e, "first") }); len(env) > 0 {
		name += fmt.Sprintf(" and in the environment %q", env)
	}
	return &job.Job{Arch: "net", Name: name, Command: job.Command{Args: []string{"forged"}}}, nil
}

func (fake) Ladders(context.Context, *job.Job, gpu.Device) (*ladder.Set, error) {
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{{Name: "as asked", Cost: ladder.None, Estimates: []mem.Estimate{{Unknown: "no formula"}}}}}},
	}, nil
}

// The test binary is both: host, and, started again, the plugin.
func TestMain(m *testing.M) {
	ServeMain(func() plugin.Plugin { return fake{} })
	os.Exit(m.Run())
}

func start(t *testing.T) *Client {
	t.Helper()
	c, err := Start(t.Context(), Source{Manifest: fake{}.Manifest()}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAnswers(t *testing.T) {
	c := start(t)
	for _, args := range []string{"mine", "print"} {
		j, err := c.Recognize(t.Context(), job.Command{Args: []string{args}})
		if err != nil || j.Arch != "net" || j.Plugin != "fake" || j.Command.Args[0] != args {
			t.Fatalf("%s: %+v, %v; the command is the user's, whatever the plugin says", args, j, err)
		}
	}
	if _, err := c.Recognize(t.Context(), job.Command{Args: []string{"other"}}); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("another family's command: %v", err)
	}
	if _, err := c.Recognize(t.Context(), job.Command{Args: []string{"wrong"}}); err == nil || err.Error() != "batch is ten" || errors.Is(err, ErrTrouble) {
		t.Errorf("a wrong recipe: %v; want the plugin's own words", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Recognize(ctx, job.Command{Args: []string{"slow"}}); !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), "in time") {
		t.Errorf("a plugin that hangs: %v", err)
	}
	set, err := c.Ladders(t.Context(), &job.Job{}, gpu.Device{})
	if err != nil || set.Phases[0].Rungs[0].Estimates[0].Known() {
		t.Errorf("an unknown estimate came back as %+v, %v", set, err)
	}
}

// A plugin's process is told what it will be asked, with the question and, where that is known, before it.
func TestAnticipation(t *testing.T) {
	ask := func(first *job.Command) string {
		t.Helper()
		c, err := Start(t.Context(), Source{Manifest: fake{}.Manifest()}, t.TempDir(), first)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		j, err := c.Recognize(t.Context(), job.Command{Args: []string{"first", "x"}})
		if err != nil {
			t.Fatal(err)
		}
		return j.Name
	}
	first := job.Command{Args: []string{"first", "y"}, Dir: "/d", Env: []string{"A=é\"'$x"}}
	long := first
	long.Env = []string{"A=" + strings.Repeat("x", 100<<10)}
	for want, c := range map[string]*job.Command{"first x": nil, "first y, first x": &first} {
		if got := ask(c); got != want {
			t.Errorf("%+v: anticipated %q, want %q", c, got, want)
		}
	}
	if got := ask(&long); got != "first x" { // which no process could be started with
		t.Errorf("a long command: anticipated %q", got)
	}
}

// A plugin that does not answer any more is ended all the same.
func TestCloseOfAStoppedPlugin(t *testing.T) {
	c := start(t)
	pid := c.client.ReattachConfig().Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Close()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("closing a stopped plugin does not end")
	}
	for range 100 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d of the plugin is still there", pid)
}

func TestNoPlugin(t *testing.T) {
	_, err := Start(t.Context(), Source{Manifest: plugin.Manifest{Name: "true"}, Path: "/bin/true"}, t.TempDir(), nil)
	if !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), "plugin true: starting it") {
		t.Errorf("a program that is no plugin: %v", err)
	}
}
