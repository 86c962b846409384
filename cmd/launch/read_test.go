package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/host"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A plan is the same whether its plugin is asked here or in a process of its own: the whole job, every rung, every line.
func TestHereAndElsewhere(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, words := range []string{
		"sisr train.py -opt options/train_attn.yml", "moco main.py", "stablesr main.py --train --base configs/tiny.yaml --gpus 0,", "dualattn train.py --task fgvc --dataset shapes",
		"dualattn train.py --task fgvc --dataset no_such_data",
	} {
		family, args, _ := strings.Cut(words, " ")
		t.Run(words, func(t *testing.T) {
			t.Chdir(filepath.Join("..", "..", "examples", family))
			said := map[string]string{}
			for name, runs := range map[string]bool{"here": false, "elsewhere": true} {
				where := settings.Room{Wish: room.Wish{Device: "auto", VRAM: 12 * unit.GiB}}
				r := reading.New(factory(), t.TempDir(), where, run.Limits{Allow: ladder.Metrics},
					settings.Reading{Plugin: "auto"})
				r.Runs = runs
				p, err := r.Read(t.Context(), append([]string{testPython()}, strings.Fields(args)...))
				if err != nil {
					t.Fatal(err)
				}
				p.Close()
				if p.Job != nil {
					p.Job.Command.Env = nil // as long as it is
				}
				doc, err := json.Marshal([]any{p.Job, p.Run, p.Room.Device, p.Warnings, p.Failed})
				if err != nil {
					t.Fatal(err)
				}
				said[name] = string(doc)
				if p.Err != nil {
					said[name] += p.Err.Error()
				}
				if p.Job == nil || p.Run == nil {
					t.Fatalf("%s: it is not recognised: %v", name, p.Err)
				}
			}
			if said["here"] != said["elsewhere"] {
				t.Errorf("here: %s\nelsewhere: %s", said["here"], said["elsewhere"])
			}
		})
	}
}

// Only what is linked in is asked here; another's plugin is started, and nothing is left of the way to it.
func TestAsking(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ps := intake.Plugins{Builtin: builtins}
	own, err := ps.Here(t.Context(), host.Source{Manifest: plugin.Manifest{Name: "sisr"}}, nil)
	if _, ok := own.(*host.Here); err != nil || !ok {
		t.Errorf("a built-in plugin is %T, %v", own, err)
	}
	for name, ask := range map[string]intake.Asker{"here": ps.Here, "elsewhere": ps.Elsewhere} {
		other := host.Source{Manifest: plugin.Manifest{Name: "sisr"}, Path: "/bin/false"}
		if c, err := ask(t.Context(), other, nil); !errors.Is(err, host.ErrTrouble) {
			t.Errorf("%s: a plugin that does not start is %T, %v", name, c, err)
		}
	}
	c, err := ps.Elsewhere(t.Context(), host.Source{Manifest: plugin.Manifest{Name: "sisr"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
