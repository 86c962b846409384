package sweep

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// newEmit writes a sweep as a file for another engine.
func newEmit() *cobra.Command {
	f, task, memory := &sweepFlags{}, sweep.EngineFile{}, ""
	c := &cobra.Command{
		Use:   "emit ENGINE [flags] -- COMMAND [ARG ...]",
		Short: "print a sweep as a file for " + strings.Join(sweep.FileEngines, ", "),
		Long: `emit prints a file for another engine and starts nothing: a task for SkyPilot, an indexed Job for
Kubernetes, or one command a line for GNU parallel, xargs and sh, in words that no shell changes. Each
row is one launch with --continue, so that it goes on where it was when the engine starts it again.
Exit code 75 means that the engine should start the row again, and 78 that it should not.`,
		Example: `  launch sweep emit parallel --grid --lr=0.1,0.2 -- python train.py > rows; parallel -j2 --joblog log < rows
  launch sweep emit kubernetes --image me/train:1 --claim disk --state /disk/launch --grid --lr=0.1,0.2 \
    -- python train.py | kubectl create -f -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			engine := args[0]
			if dash := c.ArgsLenAtDash(); dash >= 0 && dash != 1 {
				return fmt.Errorf("emit takes one engine; the command goes after --")
			}
			a, trials, err := f.asked(c, args[1:])
			if err != nil {
				return err
			}
			if task.Memory, err = unit.Parse(memory); memory != "" && err != nil {
				return fmt.Errorf("--task-memory: %w", err)
			}
			spec, t, err := a.Spec(record.MaskArgs(a.Command))
			if err != nil {
				return err
			}
			task.Name, task.Flags = spec.Name, spec.Flags
			if c.Flags().Changed("jobs") {
				task.Jobs = f.jobs
			}
			return printTask(engine, task, t, trials)
		},
	}
	f.add(c.Flags())
	c.Flags().StringVar(&task.State, "state", "", "folder for launch's state that every start of a row sees; "+
		"each row has a folder in it")
	c.Flags().StringVar(&task.Image, "image", "", "image of the container, which has launch in it")
	c.Flags().StringVar(&task.Claim, "claim", "", "kubernetes: volume claim to mount at --state")
	c.Flags().StringVar(&task.Cards, "accelerators", "", "skypilot: accelerators of each row, such as L4:1")
	c.Flags().IntVar(&task.GPUs, "cards", 0, "kubernetes: number of cards of each row")
	c.Flags().StringVar(&memory, "task-memory", "", "host memory of each row, such as 16GiB")
	return settings.Use(c, settings.All)
}

// newLine is what a line of an emitted file runs whose words a shell would change.
func newLine() *cobra.Command {
	return &cobra.Command{
		Use: "line WORD ...", Short: "run a line of an emitted file", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, words []string) error {
			env, args, err := sweep.DecodeLine(words)
			if err != nil {
				return err
			}
			own, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding launch itself: %w", err)
			}
			err = syscall.Exec(own, append([]string{os.Args[0]}, args...), append(os.Environ(), env...))
			return fmt.Errorf("running the line: %w", err)
		},
	}
}

// printTask prints the file.
func printTask(engine string, task sweep.EngineFile, t sweep.Template, trials []sweep.Trial) error {
	for _, trial := range trials {
		inv, err := t.Render(trial)
		if err != nil {
			return err
		}
		task.Rows = append(task.Rows, sweep.EngineRow{Number: trial.Number, Invocation: inv})
	}
	text, err := task.For(engine)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}
