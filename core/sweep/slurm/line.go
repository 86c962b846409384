package slurm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// Needs are what launch asks sbatch for. What is 0 is not known, and left to the cluster.
type Needs struct {
	Memory unit.Bytes // of the host
	GPUs   int
	Time   time.Duration
	Before time.Duration // how long before the time limit Slurm sends SIGUSR2
}

// Options are those of sbatch.
func (n Needs) Options() (options []string) {
	if n.Before > 0 {
		// B: only the batch shell receives the signal, and launch stands in its place
		options = append(options, fmt.Sprintf("--signal=B:USR2@%d", int(n.Before.Seconds())))
	}
	if n.Memory > 0 {
		options = append(options, fmt.Sprintf("--mem=%dM", (n.Memory+unit.MiB-1)/unit.MiB))
	}
	if n.GPUs > 0 {
		options = append(options, fmt.Sprintf("--gres=gpu:%d", n.GPUs))
	}
	if n.Time > 0 {
		minutes := int64((n.Time + time.Minute - 1) / time.Minute)
		options = append(options, fmt.Sprintf("--time=%d:%02d:00", minutes/60, minutes%60))
	}
	return options
}

// SaveOn is launch's flag for the signals of Slurm: SIGUSR2 before the time limit, SIGTERM at a preemption.
func SaveOn(before, kill time.Duration) string {
	return fmt.Sprintf("--save-on=USR2=%v,TERM=%v", within(before, 0.15), within(kill, 0.3))
}

// A Cluster is what a job has to know of Slurm's configuration.
type Cluster struct {
	Kill     time.Duration // KillWait: how long after SIGTERM Slurm kills what it preempts
	Requeues []int         // RequeueExit: the exit codes after which Slurm runs a job again
	Asked    bool          // Slurm answered; else these are its defaults
}

const (
	defaultKill  = 30 * time.Second // KillWait where nothing else is configured (slurm.conf(5))
	commandLimit = time.Minute      // Slurm's commands wait for a controller that does not answer
)

// AskCluster asks Slurm for its configuration. With an error the cluster has Slurm's defaults.
func AskCluster(ctx context.Context, env []string) (Cluster, error) {
	c := Cluster{Kill: defaultKill}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := private.Command(ctx, "scontrol", "show", "config")
	cmd.Env, cmd.WaitDelay = env, time.Second
	text, err := output(cmd)
	if err != nil {
		return c, fmt.Errorf("asking Slurm: %w", err)
	}
	return clusterOf(text), nil
}

var (
	killWait    = lazy.MustCompile(`(?m)^KillWait\s*=\s*(\d+)`)
	requeueExit = lazy.MustCompile(`(?m)^RequeueExit\s*=\s*([\d,-]+)`)
)

// clusterOf reads what `scontrol show config` prints.
func clusterOf(text string) Cluster {
	c := Cluster{Kill: defaultKill, Asked: true}
	if m := killWait.FindStringSubmatch(text); m != nil {
		if s, err := strconv.Atoi(m[1]); err == nil && s > 0 {
			c.Kill = time.Duration(s) * time.Second
		}
	}
	m := requeueExit.FindStringSubmatch(text)
	if m == nil {
		return c
	}
	for part := range strings.SplitSeq(m[1], ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		for n := first; err == nil && n <= min(last, 255); n++ { // exit codes have a byte
			c.Requeues = append(c.Requeues, n)
		}
	}
	return c
}

// Again reports whether Slurm runs a job again after this exit code.
func (c Cluster) Again(code int) bool { return slices.Contains(c.Requeues, code) }

// A Script is a batch script that runs one command.
type Script struct {
	Options []string // of sbatch, a line each
	Notes   []string // comments
	Command []string
}

// Text is the script. exec: launch takes the place of the batch shell, which Slurm sends its signals to.
func (s Script) Text() (string, error) {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, o := range s.Options {
		b.WriteString("#SBATCH " + o + "\n")
	}
	for _, n := range s.Notes {
		b.WriteString("# " + strings.Join(strings.Fields(n), " ") + "\n") // a line break would end the comment
	}
	b.WriteString("exec")
	for _, word := range s.Command {
		quoted, err := Quote(word)
		if err != nil {
			return "", err
		}
		b.WriteString(" " + quoted)
	}
	return b.String() + "\n", nil
}

var plain = lazy.MustCompile(`^[\w@%+=:,./-]+$`)

// Quote writes a word as a shell, and sbatch in its #SBATCH lines, read it.
func Quote(word string) (string, error) {
	if plain.MatchString(word) {
		return word, nil
	}
	quoted, err := syntax.Quote(word, syntax.LangPOSIX)
	if err != nil {
		return "", fmt.Errorf("writing %q for a shell: %w", word, err)
	}
	return quoted, nil
}

// within is the part of a time in which a program has to save: the rest is for stopping it, and for launch.
func within(all time.Duration, rest float64) time.Duration {
	spare := min(time.Duration(float64(all)*rest), 10*time.Second)
	return max((all - spare).Truncate(100*time.Millisecond), time.Second)
}

func output(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return "", fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return out.String(), nil
}
