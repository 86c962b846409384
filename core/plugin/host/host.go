// Package host finds plugins, picks the one that a command belongs to, and asks it: in a process of its own or, one that is linked in
// where nothing will be started, in this one.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
)

// word marks a process as a built-in plugin's: "launch __plugin sisr".
const word = "__plugin"

// A Source is a plugin that can be started.
type Source struct {
	Manifest plugin.Manifest `json:"manifest"`
	Path     string          `json:"path,omitempty"` // of its program; empty for a built-in one
}

// socketDir is the variable in which go-plugin tells a plugin where to make its socket.
const socketDir = "PLUGIN_UNIX_SOCKET_DIR"

// told is the command as the plugin is told of it: with those variables of the environment that its manifest lists.
func (s Source) told(c job.Command) job.Command {
	words := slices.Clone(c.Args)
	for _, t := range c.Texts { // a shell names a variable without $ in arithmetic
		for _, name := range identifier.FindAllString(t.Text, -1) {
			words = append(words, "$"+name)
		}
	}
	c.Env = s.Manifest.Environ(c.Env, words)
	return c
}

var identifier = lazy.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// ServeMain is called first thing in main. It returns at once unless this process was started to be one of the
// built-in plugins; then it never returns.
func ServeMain(builtins ...func() plugin.Plugin) {
	if len(os.Args) < 3 || os.Args[1] != word {
		return
	}
	for _, b := range builtins {
		if p := b(); p.Manifest().Name == os.Args[2] {
			plugin.Serve(p)
			os.Exit(0)
		}
	}
	fmt.Fprintf(os.Stderr, "no built-in plugin %q\n", os.Args[2])
	os.Exit(125)
}

// A Client is a plugin in a process of its own. It is itself a [plugin.Plugin].
type Client struct {
	source  Source
	client  *goplugin.Client
	process *process // nil until it is started
	call    *wire.Caller
	logs    *tail
}

var (
	_ plugin.Plugin    = (*Client)(nil)
	_ plugin.Estimator = (*Client)(nil)
)

// Start starts the plugin's process. dir is a folder of ours, for its socket; see [Client.Close]. first is the command that it
// will be asked to recognise, or nil: a built-in plugin begins with that while it is connected.
func Start(ctx context.Context, s Source, dir string, first *job.Command) (*Client, error) {
	path, args := s.Path, []string(nil)
	if path == "" {
		path, args = "/proc/self/exe", []string{word, s.Manifest.Name}
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(s.Manifest.Environ(os.Environ(), nil), wire.Cookie(), socketDir+"="+dir)
	if first != nil && s.Path == "" { // what another's program would print by then would be taken for its handshake
		told := s.told(*first)
		cmd.Env = append(cmd.Env, wire.Announce(&told)...)
	}
	logs := &tail{}
	conf := wire.ClientConfig()
	c := &Client{source: s, logs: logs}
	conf.RunnerFunc = func(_ hclog.Logger, ours *exec.Cmd, _ string) (runner.Runner, error) {
		// What go-plugin adds. Its folder for the socket is one of several; ours is removed with all that is in it.
		cmd.Env = append(slices.DeleteFunc(ours.Env, func(kv string) bool { return strings.HasPrefix(kv, socketDir+"=") }), cmd.Env...)
		var err error
		c.process, err = newProcess(cmd, dir, s.Path == "")
		return c.process, err
	}
	conf.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: dir}
	conf.SkipHostEnv = true
	conf.StartTimeout = 5 * time.Second
	if d, ok := ctx.Deadline(); ok {
		conf.StartTimeout = min(conf.StartTimeout, max(time.Until(d), time.Millisecond))
	}
	conf.Logger = hclog.NewNullLogger() // what it would log of the plugin's words, Stderr has
	conf.Stderr = logs
	c.client = goplugin.NewClient(conf)
	protocol, err := c.client.Client()
	if err == nil {
		c.call, err = wire.Dispense(protocol)
	}
	if err != nil {
		c.Close()
		return nil, c.trouble("starting it", err)
	}
	return c, nil
}

// Manifest implements [plugin.Plugin].
func (c *Client) Manifest() plugin.Manifest { return c.source.Manifest }

// recognized is what a [Client] or a [Here] has recognised.
type recognized struct {
	job     *job.Job
	ladders func(context.Context, gpu.Device) (*ladder.Set, error)
}

// Job implements [plugin.Recognized].
func (r *recognized) Job() *job.Job { return r.job }

// Ladders implements [plugin.Recognized].
func (r *recognized) Ladders(ctx context.Context, d gpu.Device) (*ladder.Set, error) {
	return r.ladders(ctx, d)
}

// Recognize implements [plugin.Plugin]. What the plugin answers is checked: it is another program.
func (c *Client) Recognize(ctx context.Context, cmd job.Command) (plugin.Recognized, error) {
	var r plugin.Recognition
	switch err := c.call.Call(ctx, "Recognize", c.source.told(cmd), &r); {
	case errors.Is(err, wire.ErrDeclined):
		return nil, fmt.Errorf("%w: %s", plugin.ErrNotMine, c.source.Manifest.Name)
	case err != nil:
		return nil, c.weigh("reading the command", err)
	case r.Need != nil:
		if err := r.Need.Check(); err != nil {
			return nil, c.trouble("reading the command", err)
		}
		return nil, r.Need
	case r.Caution != "":
		return nil, &plugin.Caution{Why: r.Caution}
	case r.Job == nil:
		return nil, c.trouble("reading the command", errors.New("it answered with no job"))
	}
	err := r.Job.Check()
	for _, f := range r.Job.Files { // an edited copy of Python source is run: it is made of what launch has read
		if own := cmd.Source(f.Path); err == nil && f.Format == job.Python && (own == nil || own.SHA256 != f.Source.SHA256 || !bytes.Equal(own.Text, f.Source.Text)) {
			err = fmt.Errorf("its copy of %.100q differs from the text that launch sent", f.Path)
		}
	}
	if err != nil {
		return nil, c.trouble("reading the command", fmt.Errorf("its answer cannot be: %w", err))
	}
	r.Job.Warnings, r.Job.Truths = few(r.Job.Warnings), few(r.Job.Truths)
	r.Job.Command, r.Job.Plugin = cmd, c.source.Manifest.Name // what was asked is not the plugin's to change
	return &recognized{r.Job, func(ctx context.Context, d gpu.Device) (*ladder.Set, error) { return c.ladders(ctx, r.Job, d) }}, nil
}

// few are the first of a plugin's sentences.
func few(sentences []string) []string {
	const most = 100
	sentences = sentences[:min(len(sentences), most)]
	for i, s := range sentences {
		if runes := []rune(s); len(runes) > maxWords {
			sentences[i] = string(runes[:maxWords]) + "…"
		}
	}
	return sentences
}

// ladders asks for the ladders of a job that was recognised. It is a plugin's last answer: its process is told to end while the
// answer is read.
func (c *Client) ladders(ctx context.Context, j *job.Job, d gpu.Device) (*ladder.Set, error) {
	var s ladder.Set
	asked := *j
	asked.Command = c.source.told(j.Command)
	if err := c.call.CallThen(ctx, "Ladders", plugin.LaddersQuestion{Job: &asked, Device: d}, &s, func() { go c.Close() }); err != nil {
		return nil, c.weigh("pricing the job", err)
	}
	if err := s.Check(); err != nil {
		return nil, c.trouble("pricing the job", fmt.Errorf("its answer contradicts itself: %w", err))
	}
	return &s, nil
}

// Estimate implements [plugin.Estimator]. A plugin that is none says so by an error.
func (c *Client) Estimate(ctx context.Context, q *plugin.Bare, d gpu.Device) (phases []plugin.Phase, err error) {
	if err := c.call.Call(ctx, "Estimate", plugin.EstimateQuestion{Bare: q, Device: d}, &phases); err != nil {
		return nil, c.weigh("pricing "+q.Arch, err)
	}
	return phases, nil
}

// Close ends the plugin's process. It returns within three seconds, whatever the plugin does.
func (c *Client) Close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.client.Kill()
	}()
	select {
	case <-done:
		return
	case <-time.After(2 * time.Second):
	}
	if c.process != nil { // a stopped one never answers go-plugin's request to shut down, which has no deadline
		c.process.end()
	}
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// maxWords bounds what is repeated of a plugin's own words.
const maxWords = 2000

// ErrTrouble is wrapped by errors that say that the plugin itself failed: it crashed, hung, or contradicted itself.
// Every other error is its answer, and about the command.
var ErrTrouble = errors.New("the plugin failed")

// weigh tells a plugin's answer from a plugin's failure.
func (c *Client) weigh(doing string, err error) error {
	var answer *wire.Answer
	if errors.As(err, &answer) {
		return answer
	}
	if errors.Is(err, wire.ErrEnded) {
		c.drain()
	}
	return c.trouble(doing, err)
}

// drain waits until everything is read that a process printed before it ended, a second at most: the connection is
// gone sooner. go-plugin calls a process exited once its output is read.
func (c *Client) drain() {
	for end := time.Now().Add(time.Second); c.client != nil && !c.client.Exited() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func (c *Client) trouble(doing string, err error) error {
	if long := []rune(err.Error()); len(long) > maxWords {
		err = errors.New(string(long[:maxWords]) + "…")
	}
	err = &troubleError{fmt.Errorf("plugin %s: %s: %w", c.source.Manifest.Name, doing, err)}
	if said := c.logs.String(); said != "" {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// troubleError is an [ErrTrouble] that says only what happened.
type troubleError struct{ error }

func (e *troubleError) Unwrap() []error { return []error{e.error, ErrTrouble} }

// A Left is a program that was found and is no plugin that can be asked.
type Left struct {
	Path string
	Why  string
	// Fresh says that it was asked just now and failed, which may have taken its time: its user hears of it once.
	Fresh bool
}

// Name is that of the plugin that it would be.
func (l Left) Name() string { return strings.TrimPrefix(filepath.Base(l.Path), prefix) }

func (l Left) String() string { return fmt.Sprintf("plugin %s is left out: %s", l.Path, l.Why) }

// Find lists the plugins: the built-in ones, then programs launch-plugin-NAME in dirs, in order. The first of a name
// wins, so that nobody's program takes a built-in one's place unseen. What may not be run is not asked.
func Find(builtins []plugin.Manifest, dirs []string, ask func(path string) (plugin.Manifest, error)) (found []Source, left []Left) {
	for _, m := range builtins {
		found = append(found, Source{Manifest: m})
	}
	known := func(name string) bool {
		return slices.ContainsFunc(found, func(s Source) bool { return s.Manifest.Name == name })
	}
	type answer struct {
		m   plugin.Manifest
		err error
	}
	type candidate struct {
		path, name string
		answer     chan answer
	}
	var candidates []candidate
	var searched []os.FileInfo
	asked := make(chan struct{}, 4) // at once: each may take seconds to fail
	for _, dir := range dirs {
		for _, path := range programs(dir, &searched) {
			c := candidate{path, strings.TrimPrefix(filepath.Base(path), prefix), make(chan answer, 1)}
			if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			candidates = append(candidates, c)
			if known(c.name) {
				continue
			}
			go func() {
				err := mayRun(path)
				if err != nil {
					c.answer <- answer{err: fmt.Errorf("it is not run: %w", err)}
					return
				}
				asked <- struct{}{}
				defer func() { <-asked }()
				m, err := ask(path)
				c.answer <- answer{m, err}
			}()
		}
	}
	for _, c := range candidates {
		if known(c.name) {
			left = append(left, Left{Path: c.path, Why: fmt.Sprintf("there is another %s before it", c.name)})
			continue
		}
		a := <-c.answer
		if a.err == nil && a.m.Name != c.name {
			a.err = fmt.Errorf("it calls itself %.100q, and its file would have to be %s%.100s", a.m.Name, prefix, a.m.Name)
		}
		if a.err != nil {
			var f *Failure
			left = append(left, Left{c.path, a.err.Error(), errors.As(a.err, &f) && f.Fresh})
			continue
		}
		found = append(found, Source{Manifest: a.m, Path: c.path})
	}
	return found, left
}

// programs lists the files of a folder that are named as plugins. A folder that was searched under another name, as /bin
// is /usr/bin, is passed over.
func programs(dir string, searched *[]os.FileInfo) (paths []string) {
	if dir == "" { // as a shell reads PATH
		dir = "."
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || slices.ContainsFunc(*searched, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil
	}
	*searched = append(*searched, info)
	names, _ := f.Readdirnames(-1) // in no order, and nothing is asked of the files: folders on PATH have thousands
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			paths = append(paths, filepath.Join(dir, name)) // still relative where the folder is
		}
	}
	slices.Sort(paths)
	return paths
}

// prefix of the file name of a plugin of somebody else's.
const prefix = "launch-plugin-"

// Matching returns the sources that bear a mark of the command, in their order.
func Matching(sources []Source, seen plugin.Seen) (out []Source) {
	for _, s := range sources {
		if slices.ContainsFunc(s.Manifest.Marks, func(m plugin.Mark) bool { return m.Matches(seen) }) {
			out = append(out, s)
		}
	}
	return out
}
