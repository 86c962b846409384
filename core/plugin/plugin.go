// Package plugin is what the author of a plugin writes against.
//
// A plugin knows one family of models. It reads and it counts: files themselves (recipe, source, image headers),
// relative to the command's folder, under the context's deadline. It never writes a file, starts a process, connects,
// or looks at a GPU. Everything it says is a value that launch prints, records and checks.
//
// A plugin's main is one call:
//
//	func main() { plugin.Serve(mine.New()) }
//
// and its first test another, of [github.com/launch-ml/launch/core/plugin/plugintest.Check]. `launch plugins test`
// makes the same checks of a plugin in any language. `launch plugins new NAME --go` makes a plugin that works, and
// docs/writing-a-plugin.md goes on from there with a real family. [Divisions] makes the ladders that most families
// have, [OnDevice] completes an estimate.
//
// # What stays
//
// This package has a version, [SDK], which follows semantic versioning. Within a major version nothing that a
// plugin uses is taken away or changes its meaning; what is new is a field, a kind of sign, an optional interface.
// A plugin that was built with an older version works with a newer launch, and one that was built with a newer
// version works with an older launch:
//
//   - A field that the reader does not know is ignored, at every depth of every document and in both directions. A
//     field that the writer does not know has its zero value, which always means what it meant before the field
//     existed.
//   - A kind of sign that launch does not know is ignored. A cost that launch does not know is an error: launch cannot
//     know how much it gives up.
//   - A method that a plugin lacks, such as that of [Estimator], is a feature that launch does without.
//
// A document that an older reader would misread gets a new number of the protocol. Both sides name the numbers that
// they speak when they meet, the newest common one is used, and where there is none launch names the older side.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// SDK is the version of this package: the language that it is for, and a semantic version. [Serve] puts it into the
// manifest.
const SDK = "go 1.0.0"

// ErrNotMine is returned by [Plugin.Recognize] for a command of another family.
var ErrNotMine = errors.New("not a command of this plugin")

// A Plugin knows one family of models. Its methods may be called from several goroutines at once, and give the same
// answer each time they are asked the same thing.
type Plugin interface {
	// Manifest says who the plugin is and by what its commands are known. It reads nothing.
	Manifest() Manifest

	// Recognize reads what the command says: its flags and its recipe. The error wraps ErrNotMine if the command is
	// of another family, and a [*file.Unread] if it cannot read what the program may be able to; any other error means that
	// the command is of this family and wrong, and says how.
	Recognize(ctx context.Context, c job.Command) (Recognized, error)
}

// Recognized is a command that a plugin has recognised. It keeps what the plugin has read, so that nothing is read twice, and may be
// asked more than once. [Serve] keeps it from one question to the next.
type Recognized interface {
	// Job is the command as launch needs it.
	Job() *job.Job

	// Ladders prices the job on the device, as asked and in every other way that the family knows. The answer passes
	// [ladder.Set.Check]. It is about the job as it was recognised: what launch leaves out of the job before it asks, such as a path
	// outside the command's folders, changes what an attempt does and no price.
	Ladders(ctx context.Context, d gpu.Device) (*ladder.Set, error)
}

// A Need is the error by which Recognize asks for what a plugin cannot find out by itself, because it takes a process;
// launch finds it out and asks again. Python files are read by the command's own interpreter, without running them, and
// are then in [job.Command.Sources]; a file that could not be read is among them too, with its Problem. After a few
// rounds launch asks no more.
type Need struct {
	Sources []string `json:"sources,omitempty"` // absolute paths
	// Devices asks how many GPUs the command would see: [job.Command.Devices].
	Devices bool `json:"devices,omitempty"`
	// Formulas asks what modules of the author's own keep and need: [job.Command.Formulas]. One that could not be run
	// is among the answers too, with its Problem: the estimate is then unknown.
	Formulas []job.Formula `json:"formulas,omitempty"`
}

func (n *Need) Error() string {
	var what []string
	for _, f := range n.Formulas {
		what = append(what, "what "+f.Function+" of "+f.File+" comes to")
	}
	if n.Devices {
		what = append(what, "how many GPUs it would see")
	}
	if len(n.Sources) > 0 {
		what = append(what, "what stands in "+strings.Join(n.Sources, ", "))
	}
	return "needs to know " + strings.Join(what, " and ")
}

// A Caution is the error by which Recognize leaves a command of its family alone: what it would have to go by cannot be read or
// is not to be believed. launch reports why, once, and the command runs as typed.
type Caution struct{ Why string }

func (c *Caution) Error() string { return c.Why }

// A Manifest is what can be known of a plugin without starting it.
type Manifest struct {
	Name    string   `json:"name"` // "sisr"
	Version string   `json:"version"`
	About   string   `json:"about"` // one line
	Archs   []string `json:"archs,omitempty"`
	// Projects names, by architecture, the projects of the family that have it: "traiNNer-redux, neosr". A family
	// of one has none.
	Projects map[string]string `json:"projects,omitempty"`
	Marks    []Mark            `json:"marks"` // a command that bears one of these is worth asking the plugin about
	// Env lists the variables of the environment that the plugin reads, its own and the command's; a name that ends with "*" is
	// a prefix. Without a list it is told of [Variables]. See [Manifest.Environ].
	Env []string `json:"env,omitempty"`
	// SDK is what the plugin was built with: [SDK], or "python 1.0.0". [Serve] sets it; a plugin of no SDK has none.
	SDK string `json:"sdk,omitempty"`
}

// Check reports the first way in which m is no manifest: plugins are other people's programs.
func (m Manifest) Check() error {
	switch {
	case len(m.Name) > 100 || len(m.Version) > 100 || len(m.SDK) > 100 || len(m.About) > 1000:
		return fmt.Errorf("its name, version and line about itself have %d, %d and %d bytes",
			len(m.Name), max(len(m.Version), len(m.SDK)), len(m.About))
	case len(m.Archs) > 10_000 || len(m.Projects) > 10_000 || len(m.Marks) > 1000 || len(m.Env) > 1000:
		return fmt.Errorf("it has %d architectures, %d marks and %d variables", len(m.Archs), len(m.Marks), len(m.Env))
	}
	for _, k := range m.Marks {
		if len(k.Script) > 1000 || len(k.Flags)+len(k.Beside)+len(k.Contains) > 1000 {
			return fmt.Errorf("a mark has %d flags, %d paths and %d texts", len(k.Flags), len(k.Beside), len(k.Contains))
		}
		for _, text := range k.Contains {
			if len(text) > 10_000 || slices.Contains(strings.Split(text, "|"), "") {
				return fmt.Errorf("a mark looks for %.100q in the script: every text needs 1 to 10,000 bytes", text)
			}
		}
		if err := k.narrow(); err != nil {
			return err
		}
		for _, path := range k.Beside {
			if !filepath.IsLocal(path) {
				return fmt.Errorf("a mark looks for %.100q, which is not beside a script", path)
			}
		}
	}
	return nil
}

// maxFormulas is more than a ladder has rungs in any family known.
const maxFormulas = 200

// Check reports whether launch can find out what is needed.
func (n *Need) Check() error {
	if len(n.Sources) > 5000 {
		return fmt.Errorf("it asks for %d files", len(n.Sources))
	}
	for _, path := range n.Sources {
		if !filepath.IsAbs(path) || len(path) > 4096 || strings.IndexByte(path, 0) >= 0 {
			return fmt.Errorf("it asks for %.100q, which is no absolute path", path)
		}
	}
	if len(n.Formulas) > maxFormulas {
		return fmt.Errorf("it asks for %d formulas", len(n.Formulas))
	}
	for _, f := range n.Formulas {
		if err := f.Check(); err != nil {
			return err
		}
	}
	return nil
}
