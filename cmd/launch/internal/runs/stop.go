package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
)

// lookForEnd is how often launch stop looks whether the run has ended.
const lookForEnd = 200 * time.Millisecond

// NewStop makes launch stop.
func NewStop() *cobra.Command {
	var asked record.StopRequest
	var leave bool
	c := &cobra.Command{
		Use: "stop RUN", Short: "stop a run from another terminal, after it has saved its state if you wish",
		Long: `stop asks the launch that carries a run to stop its program, and waits until the run has ended. The run
then exits with 75, and launch resume RUN continues it. Ctrl-C ends the waiting, not the request.

Without --save the program gets SIGTERM at once; what it has not saved is lost. With --save it is asked
to save its state in the way that its plugin knows, or in the way in which it saves after an
out-of-memory; a program without such a way is stopped after the next state that it saves by itself.
--next does not ask it, and waits for that state.`,
		Args: cli.Takes(1, 1, "one run from launch runs, or last"),
		Example: "  launch stop --save last\n  launch stop --next --within 30m last\n" +
			"  launch stop --save last; launch resume last",
		RunE: settings.With(func(c *cobra.Command, s settings.Values, args []string) error {
			if asked.Within < 0 {
				return errors.New("--within is a time, such as 30m")
			}
			if asked.Within > 0 && !asked.Save && !asked.Next {
				return errors.New("--within limits --save and --next; without them the program is stopped at once")
			}
			return stopRun(c.Context(), record.In(s.State), args[0], asked, !leave)
		}),
	}
	c.Flags().BoolVar(&asked.Save, "save", false, "after it has saved its state")
	c.Flags().BoolVar(&asked.Next, "next", false, "after the next state that it saves by itself")
	c.Flags().DurationVar(&asked.Within, "within", 0, "with --save and --next: stop it after this time even if "+
		"it has not saved (default: no limit)")
	c.Flags().BoolVar(&leave, "no-wait", false, "do not wait for the end of the run")
	settings.Use(c, settings.StateFlags)
	return cli.Exits(c, cli.Exit("0", "the run has ended, or with --no-wait was asked to end"),
		cli.Exit("125", "there is no such run, or it is not running on this machine"))
}

// stopRun asks the launch of a run to stop it.
func stopRun(ctx context.Context, store record.Store, name string, asked record.StopRequest, wait bool) error {
	id, err := store.Find(name)
	if err != nil {
		return err
	}
	h, err := store.Read(id)
	if err != nil {
		return err
	}
	switch life := h.Life(); {
	case !life.Alive:
		return fmt.Errorf("run %s is not running: launch show %s prints how it ended", id, id)
	case life.Host != "":
		return fmt.Errorf("run %s is running on %s: stop it there", id, life.Host)
	}
	if err := h.AskToStop(asked); err != nil {
		return fmt.Errorf("asking run %s to stop: %w", id, err)
	}
	say := cli.Notes()
	say.Line("asked run %s to stop", id)
	if sweep := rowOf(h.Life()); sweep != "" {
		say.Line("it is a row of sweep %s in a job of Slurm, which runs it again: launch sweep stop %s stops the sweep",
			sweep, sweep)
	}
	if !wait {
		return nil
	}
	ctx, end := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer end()
	for told := false; h.Life().Alive; {
		if !told && suspended(h.Life().PID) {
			told = true
			say.Line("run %s is suspended (Ctrl-Z, SIGSTOP): it is continued, so that it can stop", id)
			syscall.Kill(h.Life().PID, syscall.SIGCONT)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run %s is still running; it was asked to stop", id)
		case <-time.After(lookForEnd):
		}
		if why := h.StopRefused(); why != "" {
			return fmt.Errorf("run %s goes on: its launch cannot read the request to stop it: %s", id, why)
		}
	}
	if h, err = store.Read(id); err != nil {
		return err
	}
	why := "its end was not recorded"
	if out := h.LastOutcome(); out != nil {
		why = string(out.Ending)
	}
	say.Line("run %s has ended: %s", id, why)
	return nil
}

// suspended reports whether a process is a launch of this user's that a signal has stopped.
func suspended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	mine, err := os.Readlink("/proc/self/exe")
	theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && filepath.Base(strings.TrimSuffix(theirs, " (deleted)")) == filepath.Base(mine) &&
		strings.HasPrefix(after, "T")
}

// rowOf returns the sweep whose row a run is in a job of Slurm, else "".
func rowOf(l record.Life) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.PID))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(status), "\nPPid:")
	parent, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	line, err := os.ReadFile("/proc/" + parent + "/cmdline")
	if err != nil {
		return ""
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if n := len(words); n >= 3 && words[n-3] == "sweep" && words[n-2] == "row" { // as `launch sweep row` is called
		return filepath.Base(words[n-1])
	}
	return ""
}
