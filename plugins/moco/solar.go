package moco

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// solar-ssl/moco-v3 and what is built like it: a script that leads to a trainer, which imports its settings as a class.
// Which class is live stands in the trainer's import and nowhere else: users switch it with sed.
type solar struct {
	trainer   python.Source
	files     []python.Source // what the trainer imports of the project, itself first
	config    string          // the file of the class that is live
	class     string
	variable  string   // the trainer's name for it: "config"
	documents []string // the files of the class and its bases: where its fields stand
	unread    string   // why its settings could not be read
}

var (
	reConstruct = lazy.MustCompile(`(?m)^\s*(\w+)\s*(?::[^=\n]+)?=\s*(\w+)\(\s*\)`)
	reMomentum  = lazy.MustCompile(`def\s+_?(?:momentum_update|update_momentum)\w*\(`)
	reBackbone  = lazy.MustCompile(`def\s+get_backbone\(`)
	reListdir   = lazy.MustCompile(`\bos\.listdir\(`)
	reEnqueue   = lazy.MustCompile(`self\._dequeue_and_enqueue\(`)
	reBothKeys  = lazy.MustCompile(`self\._dequeue_and_enqueue\(\s*torch\.cat\(`)
	reFrozen    = lazy.MustCompile(`stop_grad_conv1\s*=\s*True\s*\)`)
	reNamed     = lazy.MustCompile(`stop_grad_conv1\s*=`)
	reFreezes   = lazy.MustCompile(`def\s+get_backbone\([^)]*stop_grad_conv1[^=)]*=\s*True`)
	reTimm      = lazy.MustCompile(`\btimm\.create_model\(`)
	reVitB16    = lazy.MustCompile(`\bmodels\.vit_b_16\(`)
	reProxy     = lazy.MustCompile(`["']vit_small["']\s*:[\s\S]{0,500}?\bmodels\.vit_b_16\(`)
	reTorchvis  = lazy.MustCompile(`\bmodels\.(resne[x]?t\w*|wide_resnet\w*)\(`)
	reSmall     = lazy.MustCompile(`class\s+SmallResNet\b`)
	reFolder    = lazy.MustCompile(`os\.path\.join\(\s*root_dir\s*,\s*["']([^"']+)["']\s*\)`)
	reEndings   = lazy.MustCompile(`\.endswith\(\s*\(([^)]*)\)`)
	reQuoted    = lazy.MustCompile(`["']([^"']*)["']`)
)

// trainer is the file of the training loop that a script leads to: itself, or where it imports main from. "" for a
// script of another family.
func (p *project) trainer(main python.Source) string {
	if isTrainer(main) {
		return main.Path
	}
	for _, im := range main.Imports() {
		if path := python.Resolve(p.root, main.Path, im.Module); binds(im, "main") && path != "" && isTrainer(readText(path)) {
			return path
		}
	}
	return ""
}

// binds reports whether an import gives the importing file something by that name.
func binds(im python.Import, name string) bool {
	return slices.ContainsFunc(im.Names, func(n python.Imported) bool { return n.As == name })
}

// isTrainer tells a trainer by what it does: it builds its settings from a class, reads batch_size of it, and builds a
// momentum-contrast model.
func isTrainer(t python.Source) bool {
	v, _ := settingsOf(t)
	return v != "" && reBuildsMoCo.MatchString(t.Code)
}

var reBuildsMoCo = lazy.MustCompile(`(?i)\bmoco\w*\(`)

// settingsOf finds the variable that the trainer keeps its settings in, and the name of their class.
func settingsOf(t python.Source) (variable, class string) {
	if !strings.Contains(t.Code, ".batch_size") {
		return "", ""
	}
	for _, m := range reConstruct.FindAllStringSubmatch(t.Code, -1) {
		if strings.Contains(t.Code, m[1]+".batch_size") {
			return m[1], m[2]
		}
	}
	return "", ""
}

// readSolar reads a command whose settings are a class.
func (p *project) readSolar(main python.Source) error {
	s := &solar{trainer: readText(p.trainer(main))}
	p.solar = s
	p.dialect, p.divides = "solar-ssl/moco-v3", s.trainer.Has(reDivideAll)
	p.options = s.trainer.Options()
	if err := p.parse(); err != nil {
		return err
	}
	s.files, _ = python.Reachable(p.root, s.trainer, maxFiles, readText)
	variable, class := settingsOf(s.trainer)
	s.variable = variable
	if err := p.findSettings(s, main.Path, class); err != nil {
		return err
	}
	p.spawns = p.argv.Has("--multiprocessing-distributed") && s.trainer.Has(reSpawn)
	p.resume = p.flag("resume", "--resume")
	p.readModel(s)
	if s.unread != "" {
		p.warn("%s could not be read (%s): nothing in it is changed", filepath.Base(s.config), s.unread)
		p.batch = knob{}
		return nil
	}
	p.readFields(s)
	p.readEncoder(s)
	p.missing(s)
	return nil
}

// maxFiles bounds how many files of a project are followed.
const maxFiles = 64

// first is the first file that matches.
func (s *solar) first(re *lazy.Regexp) python.Source {
	for _, t := range s.files {
		if t.Has(re) {
			return t
		}
	}
	return python.Source{}
}

// findSettings follows the imports from the script to the file that declares the class, and asks launch to read them.
func (p *project) findSettings(s *solar, script, class string) error {
	guess := ""
	for _, im := range s.trainer.Imports() {
		if guess == "" && binds(im, class) {
			guess = python.Resolve(p.root, s.trainer.Path, im.Module)
		}
	}
	if err := p.need(script, s.trainer.Path, guess); err != nil {
		return err
	}
	if script != s.trainer.Path { // the text says so; the parser has the last word
		src := p.source(script)
		if src.Problem == "" && !slices.ContainsFunc(src.Imports, func(i config.PythonImport) bool {
			return i.Name == "main" && python.Resolve(p.root, script, i.Module) == s.trainer.Path
		}) {
			return fmt.Errorf("%w: %s does not import main from %s", plugin.ErrNotMine, filepath.Base(script), filepath.Base(s.trainer.Path))
		}
	}
	return p.followClass(s, s.trainer.Path, class, &s.documents)
}

// need asks launch for the files that it has not read yet.
func (p *project) need(paths ...string) error {
	var missing []string
	for _, path := range paths {
		if path != "" && p.source(path) == nil && !slices.Contains(missing, path) {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 {
		return &plugin.Need{Sources: missing}
	}
	return nil
}

// followClass finds the file that declares a class that file knows by that name, and then those of its bases, and enters
// them. The first is the class's own.
func (p *project) followClass(s *solar, file, class string, into *[]string) error {
	for range 8 {
		src := p.source(file)
		if src.Problem != "" {
			if s.config == "" {
				s.config = file
			}
			s.unread = src.Problem
			return nil
		}
		if c := src.Class(class); c != nil {
			if s.config == "" {
				s.config, s.class = file, class
			}
			if slices.Contains(*into, file) {
				return nil
			}
			*into = append(*into, file)
			for _, base := range c.Bases {
				if src.Class(base) == nil && p.imports(src, base) != "" {
					if err := p.followClass(s, file, base, into); err != nil {
						return err
					}
				}
			}
			return nil
		}
		next := p.imports(src, class)
		if next == "" {
			if s.config == "" {
				s.config, s.unread = file, "it does not say where "+class+" comes from"
			}
			return nil
		}
		for _, i := range src.Imports {
			if i.As == class && i.Name != "" {
				class = i.Name
				break
			}
		}
		if err := p.need(next); err != nil {
			return err
		}
		file = next
	}
	s.unread = "its imports lead in a circle"
	return nil
}

// imports is the project's file that a name is imported from, or "".
func (p *project) imports(src *config.PythonSource, name string) string {
	for _, i := range src.Imports {
		if i.As == name && i.Name != "" {
			return python.Resolve(p.root, src.Path, i.Module)
		}
	}
	return ""
}

// field finds a field of the settings: in the class, else in its bases.
func (p *project) field(name string) (config.PythonItem, string, bool) {
	s := p.solar
	for i, path := range s.documents {
		src := p.source(path)
		classes := []string{s.class}
		if i > 0 { // a base from another file
			classes = classes[:0]
			for _, c := range src.Classes {
				classes = append(classes, c.Name)
			}
		}
		for _, class := range classes {
			if it, ok := src.Field(class, name); ok {
				return it, path, true
			}
			if it, ok := src.Item(config.JoinPath(class, "__init__", name)); ok {
				return it, path, true
			}
		}
	}
	return config.PythonItem{}, "", false
}

// setting is a field as a knob.
func (p *project) setting(name, field string) knob {
	it, path, ok := p.field(field)
	if !ok {
		return knob{}
	}
	k := knob{name: name, at: config.Address{Doc: path, Path: it.Path}, found: true}
	k.value = literal(it, p.source(path).Text)
	switch assigned := p.solar.trainer.Assigned(p.solar.variable + "." + field); {
	case !it.Literal:
		k.dead = python.Place(path, it.Line) + " computes it"
	case !p.readsField(field):
		k.dead = "nothing that runs reads it"
	case len(assigned) > 0 && !(field == "batch_size" && len(assigned) == len(reDivideAll.FindAllString(p.solar.trainer.Code, -1))): // the worker's division
		k.dead = python.Place(p.solar.trainer.Path, assigned[0]) + " sets it itself"
	}
	return k
}

// literal is a value as the program reads it, as far as it can be said in a word.
func literal(it config.PythonItem, src []byte) string {
	var s string
	if json.Unmarshal(it.Value, &s) == nil && it.Literal && strings.HasPrefix(string(it.Value), `"`) {
		return s
	}
	if it.Start < 0 || it.End > len(src) || it.Start > it.End {
		return string(it.Value)
	}
	return string(src[it.Start:it.End])
}

// readsField reports whether any file that runs reads the field of its settings. What the class's own methods print of
// it is not counted.
func (p *project) readsField(field string) bool {
	asked := lazy.MustCompile(`getattr\([^)]*["']` + regexp.QuoteMeta(field) + `["']`)
	return slices.ContainsFunc(p.solar.files, func(t python.Source) bool {
		return !slices.Contains(p.solar.documents, t.Path) && (t.Names("."+field) || t.Has(asked))
	})
}

// readModel finds what the model does with its queue.
func (p *project) readModel(s *solar) {
	model := s.first(reMomentum)
	switch {
	case model.Has(reBothKeys):
		p.step = arch.Solar
	case model.Has(reEnqueue):
		p.step = arch.SolarK2
	default:
		p.step = arch.SolarExp
	}
	p.asserts, p.assertAt = model.Has(reAssert), model.At(reAssert)
	p.stopGrad = s.trainer.Has(reFrozen) || !s.trainer.Has(reNamed) && s.first(reBackbone).Has(reFreezes)
}

// readFields reads the settings.
func (p *project) readFields(s *solar) {
	p.batch = p.setting(knobTotal, "batch_size")
	p.accumulation = p.setting(knobAccumulation, "gradient_accumulation_steps")
	p.rate = p.setting(knobRate, "learning_rate")
	p.queue = p.setting(knobQueue, "queue_size")
	p.amp = p.setting(knobAMP, "use_amp")
	p.checkpointing = p.setting(knobCheckpointing, "use_grad_checkpointing")
	p.crop = p.setting(knobCrop, "image_size")
	p.dim, p.mlpDim = p.setting("", "feature_dim").int(), p.setting("", "mlp_dim").int()
	p.epochs = p.setting("", "epochs").int()
	p.optimizer = strings.ToLower(p.setting("", "optimizer").value)
	p.named = p.setting("", "backbone").value
	if p.step != arch.SolarExp {
		use := p.setting("", "use_queue")
		p.usesQueue = use.found && use.on()
		if !p.usesQueue {
			p.asserts = false
		}
	}
	if dir := p.setting("", "dataset_path"); dir.value != "" {
		dataset := s.first(reListdir)
		p.data = file.In(p.prog.Dir, dir.value)
		if m := reFolder.FindStringSubmatch(dataset.Code); m != nil {
			p.data = filepath.Join(p.data, m[1])
		}
		if m := reEndings.FindStringSubmatch(dataset.Code); m != nil {
			for _, e := range reQuoted.FindAllStringSubmatch(m[1], -1) {
				p.dataTypes = append(p.dataTypes, e[1])
			}
		}
		if !dataset.Exists() || p.dataTypes == nil {
			p.data = ""
		}
	}
}

// readEncoder finds which network a backbone's name stands for: the source says, not the name.
func (p *project) readEncoder(s *solar) {
	b := s.first(reBackbone)
	p.encoder = p.named
	switch vit := strings.HasPrefix(p.named, "vit"); {
	case b.Has(reSmall):
		p.library = arch.Small
	case vit && b.Has(reTimm):
		p.library = arch.Timm
	case vit && p.named == "vit_small" && b.Has(reProxy), vit && p.named == "vit_base" && b.Has(reVitB16):
		p.library, p.encoder = arch.Torchvision, "vit_b_16"
	case !vit && b.Has(reTorchvis):
		p.library = arch.Torchvision
	default:
		p.encoder = "" // nothing is known of it
	}
}

// missing warns of settings that the trainer reads and the class does not have: it would stop with an AttributeError
// after some seconds.
func (p *project) missing(s *solar) {
	re := lazy.MustCompile(`(.?)\b` + regexp.QuoteMeta(s.variable) + `\.(\w+)\s*(.?)`)
	var names []string
	line := 0
	for _, m := range re.FindAllStringSubmatchIndex(s.trainer.Code, -1) {
		before, name, after := s.trainer.Code[m[2]:m[3]], s.trainer.Code[m[4]:m[5]], s.trainer.Code[m[6]:m[7]]
		if before == "." || after == "(" || slices.Contains(names, name) {
			continue
		}
		if _, _, ok := p.field(name); ok || p.unresolvedBase() || p.annotated(name) {
			continue
		}
		guarded := lazy.MustCompile(`hasattr\(\s*` + regexp.QuoteMeta(s.variable) + `\s*,\s*["']` + name + `["']\s*\)`)
		if s.trainer.Has(guarded) {
			continue
		}
		names = append(names, name)
		if line == 0 {
			line = 1 + strings.Count(s.trainer.Code[:m[0]], "\n")
		}
	}
	if len(names) > 0 {
		p.warn("%s has no %s, which %s reads: it would stop with an AttributeError", filepath.Base(s.config), strings.Join(names, ", "), python.Place(s.trainer.Path, line))
	}
}

// unresolvedBase reports whether the class inherits from something that was not found, and so may have any field.
func (p *project) unresolvedBase() bool {
	for _, path := range p.solar.documents {
		src := p.source(path)
		for _, c := range src.Classes {
			for _, base := range c.Bases {
				if base != "object" && src.Class(base) == nil && p.imports(src, base) == "" {
					return true
				}
			}
		}
	}
	return false
}

// annotated reports whether the class declares the name without a value, or as a property.
func (p *project) annotated(name string) bool {
	re := lazy.MustCompile(`(?m)^\s+(?:` + regexp.QuoteMeta(name) + `\s*[:=]|def\s+` + regexp.QuoteMeta(name) + `\()`)
	return slices.ContainsFunc(p.solar.documents, func(path string) bool {
		return python.NewSource(path, string(p.source(path).Text)).Has(re)
	})
}
