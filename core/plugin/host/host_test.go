package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
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

// anticipated is what the plugin was told to expect, one by one.
var (
	anticipated []string
	telling     sync.Mutex // nobody waits for one that is deaf, here
)

func (fake) Anticipate(c job.Command) {
	telling.Lock()
	defer telling.Unlock()
	anticipated = append(anticipated, strings.Join(c.Args, " "))
}

// told is what it was told since it was asked last.
func told() string {
	telling.Lock()
	defer telling.Unlock()
	defer func() { anticipated = nil }()
	return strings.Join(anticipated, ", ")
}

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
	case "weary":
		return nil, context.Canceled
	case "deaf":
		select {}
	case "panic":
		mem.Together([]func(){func() { panic("no such layer") }})
	case "print": // what a plugin prints must not disturb what it says
		os.Stdout.WriteString(strings.Repeat("noise\n", 10000))
	}
	name := told()
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

// A plugin gives the same answers in a process of its own and in this one.
func TestAnswers(t *testing.T) {
	t.Run("apart", func(t *testing.T) { answers(t, start(t), "mine", "print") })
	t.Run("here", func(t *testing.T) { answers(t, NewHere(fake{}, nil), "mine") })
}

func answers(t *testing.T, c plugin.Plugin, mine ...string) {
	for _, args := range mine {
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
	set, err := c.Ladders(t.Context(), &job.Job{}, gpu.Device{})
	if err != nil || set.Phases[0].Rungs[0].Estimates[0].Known() {
		t.Errorf("an unknown estimate came back as %+v, %v", set, err)
	}
}

// A plugin that fails is said to have failed, and nobody waits for one that is deaf.
func TestFailures(t *testing.T) {
	for name, c := range map[string]plugin.Plugin{"apart": start(t), "here": NewHere(fake{}, nil)} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for _, args := range []string{"slow", "deaf"} {
			if _, err := c.Recognize(ctx, job.Command{Args: []string{args}}); !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), "in time") && name == "apart" {
				t.Errorf("%s, a plugin that is %s: %v", name, args, err)
			}
		}
		if _, err := c.Recognize(t.Context(), job.Command{Args: []string{"weary"}}); !errors.Is(err, ErrTrouble) {
			t.Errorf("%s, a plugin that gives up: %v", name, err)
		}
		_, err := c.Recognize(t.Context(), job.Command{Args: []string{"panic"}})
		if says := "plugin fake: reading the command: "; !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "panic: no such layer") {
			t.Errorf("%s, a plugin that panics: %v", name, err)
		}
	}
	if _, err := NewHere(fake{}, nil).Estimate(t.Context(), &plugin.Bare{Arch: "net"}, gpu.Device{}); !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), "prices no bare network") {
		t.Errorf("what prices no bare network: %v", err)
	}
	for name, p := range map[string]plugin.Plugin{"no job": answer{}, "no ladders": answer{job: &job.Job{}}} {
		h := NewHere(p, nil)
		j, err := h.Recognize(t.Context(), job.Command{})
		if err == nil {
			_, err = h.Ladders(t.Context(), j, gpu.Device{})
		}
		if !errors.Is(err, ErrTrouble) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer is a plugin with one job, or none, and no ladders.
type answer struct {
	fake
	job *job.Job
}

func (a answer) Recognize(context.Context, job.Command) (*job.Job, error)         { return a.job, nil }
func (answer) Ladders(context.Context, *job.Job, gpu.Device) (*ladder.Set, error) { return nil, nil }

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
	first := job.Command{Args: []string{"first", "y"}, Dir: "/d", Env: []string{"PYTHON_A=é\"'$x"}}
	long := first
	long.Env = []string{"PYTHON_A=" + strings.Repeat("x", 100<<10)}
	for want, c := range map[string]*job.Command{"first x": nil, "first y, first x": &first} {
		if got := ask(c); got != want {
			t.Errorf("%+v: anticipated %q, want %q", c, got, want)
		}
	}
	if got := ask(&long); got != "first x" { // which no process could be started with
		t.Errorf("a long command: anticipated %q", got)
	}
	told()
	if j, err := NewHere(fake{}, &first).Recognize(t.Context(), job.Command{Args: []string{"first", "x"}}); err != nil || !strings.HasPrefix(j.Name, "first y, first x") {
		t.Errorf("in this process: anticipated %+v, %v", j, err)
	}
}

// A plugin that does not answer any more is ended all the same.
func TestCloseOfAStoppedPlugin(t *testing.T) {
	c := start(t)
	pid := c.process.cmd.Process.Pid
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
