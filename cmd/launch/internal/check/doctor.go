package check

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/check"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

// foundWrong is the exit code of launch doctor where something is wrong.
const foundWrong = 1

// NewDoctor makes launch doctor.
func NewDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [-- COMMAND [ARG ...]]",
		Short: "examine this machine, and the Python that a command would use",
		Long: `doctor looks at the driver, NVML, host memory, cores, /dev/shm, limits, Python, torch, settings of torch's
allocator, WSL, the container and Slurm. For each it prints what it found and, where something is wrong,
what mends it. It starts no program but its own question to the driver, and changes nothing. Without a
command it looks at python3 of PATH.

  right     as it should be                  note      it works; worth knowing
  wrong     a training would fail            unknown   launch could not find out
  absent    this machine has none`,
		Example: "  launch doctor\n  launch doctor -- python train.py -opt x.yml\n" +
			"  launch doctor --json | jq -r '.findings[] | select(.state == \"wrong\") | .mend[]'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && c.ArgsLenAtDash() != 0 {
				return fmt.Errorf("put -- before the command: %s -- %s …", c.CommandPath(), args[0])
			}
			d := ui.DoctorOf(record.MaskArgs(args), check.LookAtMachine(c.Context(), machineOf(args)).Examine())
			if asJSON {
				if err := cli.PrintJSON(d); err != nil {
					return err
				}
			} else {
				cli.Tables().Doctor(d)
			}
			if d.Wrong > 0 {
				return cli.ExitCode(foundWrong)
			}
			return nil
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cli.Exits(c, cli.Exit("0", "nothing is wrong"), cli.Exit("1", "something is wrong"),
		cli.Exit("125", "doctor itself failed"))
}

// machineOf is what the doctor examines for a command; without one, for python3 of PATH.
func machineOf(args []string) check.Subject {
	dir, _ := os.Getwd()
	of := check.Subject{Env: os.Environ(), Dir: dir, Assumed: len(args) == 0}
	if of.Assumed {
		args = []string{"python3", "-c", "pass"}
	}
	prog, err := command.Program(args, of.Env, dir)
	if err != nil { // it starts no Python
		return of
	}
	of.Env, of.Called, of.Python = prog.Environ(of.Env), args[0], python.Of(prog, of.Env)
	if prog.Dir != "" {
		of.Dir = prog.Dir
	}
	return of
}
