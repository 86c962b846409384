package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
)

// Read joins flags, environment and files. dir is the folder that launch was started in.
//
// Viper decides which value counts, through BindPFlags, AutomaticEnv, MergeConfigMap and GetString. It does not read
// the files: it would follow any link, convert values as YAML does (010 becomes 8), and ignore unknown and repeated
// keys.
func Read(f *pflag.FlagSet, dir string) (Values, error) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	v := viper.New()
	v.SetEnvPrefix("LAUNCH")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv() // an empty variable counts as unset
	if err := v.BindPFlags(f); err != nil {
		return Values{}, err
	}
	files := joined{v: v, from: map[string]string{}, project: map[string]bool{}}
	for _, path := range settingsFiles(dir) {
		if err := files.add(path); err != nil {
			return Values{}, err
		}
	}
	f.VisitAll(func(g *pflag.Flag) {
		switch env := Variable(g.Name); {
		case g.Changed:
			delete(files.from, g.Name)
			delete(files.project, g.Name)
		case os.Getenv(env) != "":
			files.from[g.Name] = env
			delete(files.project, g.Name)
		}
	})
	s, err := decode(v, Names{files.from, files.project})
	if len(s.Cards) > 0 && !f.Changed("compare") {
		err = errors.Join(err, fmt.Errorf("%s names several cards: only launch plan --compare takes more than one",
			s.Names.Name("vram")))
	}
	s.Reading.Notes, s.Reading.AsTyped = files.notes, files.asTyped
	if !filepath.IsAbs(s.State) && s.State != "" { // now, before launch changes its folder
		s.State = filepath.Join(dir, s.State)
	}
	if err == nil {
		own, warning := record.OwnState(s.State)
		if s.State = own; warning != "" {
			cli.Reporter(false, false).Warn("%s", warning)
		}
	}
	for _, name := range []string{"allow", "vram", "device", "memory", "reserve", "fill", "as-asked", "anyway", "rehearse", "gpus"} {
		s.Expects = s.Expects || f.Changed(name)
	}
	return s, err
}

// joined collects the settings of the files. A later file outranks an earlier one.
type joined struct {
	v       *viper.Viper
	from    map[string]string // where a setting comes from, as errors name it
	project map[string]bool   // settings from a project's file
	notes   []string
	asTyped string // why launch changes nothing of the training; ""
}

// add reads a file, which may be missing. It returns an error only for a mistake in a trusted file.
func (j *joined) add(path string) error {
	file, err := private.ReadSettings(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	approved := false
	if err == nil {
		approved = private.Approved().Has(file)
		if err = file.Foreign; err != nil && approved {
			err = nil
		}
	}
	if err != nil {
		j.notes = append(j.notes, notTaken(path, file, err))
		j.asTyped = cmp.Or(j.asTyped, "the settings in "+path+" are not trusted")
		return nil
	}
	whole := filepath.Base(path) != ProjectFile || approved && file.Foreign == nil
	left, err := merge(j.v, file, whole, j.from, j.project)
	if err == nil && len(left) > 0 {
		j.notes = append(j.notes, left.note(file, approved))
	}
	return err
}

// ProjectFile is the name of a project's settings file.
const ProjectFile = ".launch.yaml"

// settingsFiles lists the settings files, the one that outranks the other last.
func settingsFiles(dir string) (files []string) {
	if user := private.ConfigDir(); user != "" {
		files = append(files, filepath.Join(user, "config.yaml"))
	}
	home, _ := os.UserHomeDir()
	if path := private.Nearest(dir, ProjectFile, home); path != "" {
		files = append(files, path)
	}
	return files
}

// merge adds a file's settings to v and from, and those of a project's file to project. Settings that only the user may
// make are taken if whole is set; otherwise merge returns them. It keeps each value as it is written (010, yes): decode
// knows each setting's type.
func merge(v *viper.Viper, file *private.Settings, whole bool, from map[string]string,
	project map[string]bool) (left leftOut, err error) {
	path := file.Path
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(file.Text, &values); err != nil {
		return nil, fmt.Errorf("reading launch's settings in %s: %w", path, err)
	}
	settings := Known()
	seen := map[string]bool{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if value.Kind == yaml.AliasNode {
			value = *value.Alias
		}
		where := key + " in " + path
		name := strings.ToLower(key)
		switch {
		case settings.Lookup(name) == nil:
			meant := ""
			if near := nearest(name, settings); near != "" {
				meant = fmt.Sprintf(" (did you mean %s?)", near)
			}
			errs = append(errs, fmt.Errorf(
				"%s: launch has no setting %q%s; its settings are the flags in `launch help settings`", path, key, meant))
		case seen[name]:
			errs = append(errs, fmt.Errorf("%s sets %s twice", path, name))
		case value.Kind != yaml.ScalarNode:
			kind := map[yaml.Kind]string{yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}[value.Kind]
			errs = append(errs, fmt.Errorf("%s is %s: it takes one value", where, kind))
		case value.ShortTag() == "!!null":
			errs = append(errs, fmt.Errorf("%s has no value: give it one, or remove the line", where))
		case !whole && usersAlone(name, value.Value):
			left = append(left, name)
		default:
			text := value.Value
			// relative to the file, not to the current folder
			if name == "state-dir" && text != "" && !filepath.IsAbs(text) {
				text = filepath.Join(filepath.Dir(path), text)
			}
			from[name], project[name] = where, filepath.Base(path) == ProjectFile
			_ = v.MergeConfigMap(map[string]any{name: text}) // it never fails
		}
		seen[name] = true
	}
	return left, errors.Join(errs...)
}
