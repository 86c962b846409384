// Package host finds plugins, keeps those that the user has installed, picks the one that a command belongs to, and
// asks it: in a process of its own or, one that is linked in where nothing will be started, in this one.
package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// word marks a process as a built-in plugin's: "launch __plugin sisr".
const word = "__plugin"

// A Source is a plugin that can be started.
type Source struct {
	Manifest plugin.Manifest `json:"manifest"`
	Path     string          `json:"path,omitempty"` // of its program; empty for a built-in one
	// Verify returns an error if the program must not be started; nil: the caller knows that it may.
	Verify func(context.Context) error `json:"-"`
}

// socketDir is the variable in which go-plugin tells a plugin where to make its socket.
const socketDir = "PLUGIN_UNIX_SOCKET_DIR"

// told is the command as the plugin is told of it: with those variables of the environment that its manifest lists;
// and, for one that is another program, with what launch has understood of it.
func (s Source) told(c job.Command) job.Command {
	if s.Path != "" {
		c.Program = understood(c)
	}
	words := slices.Clone(c.Args)
	for _, t := range c.Texts { // a shell names a variable without $ in arithmetic
		for _, name := range identifier.FindAllString(t.Text, -1) {
			words = append(words, "$"+name)
		}
	}
	c.Env = s.Manifest.Environ(c.Env, words)
	return c
}

// environ is the environment of the plugin's process. PYTHONPATH and LD_PRELOAD, which a project needs, would lead
// another's program to files beside those that were pinned: it finds them in the command alone.
func (s Source) environ(env []string) []string {
	env = s.Manifest.Environ(env, nil)
	if s.Path == "" {
		return env
	}
	return slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "PYTHON") || strings.HasPrefix(kv, "LD_")
	})
}

var identifier = lazy.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// understood is the program of a command, or nil.
func understood(c job.Command) *job.Program {
	prog, err := c.Prog()
	if err != nil {
		return nil
	}
	p := &job.Program{Script: prog.Path(), Args: prog.Args, Dir: prog.Dir, Interpreter: prog.Interpreter, Ranks: 1}
	if prog.Kind == command.Module {
		p.Module = prog.Script
	}
	for _, l := range prog.Launchers {
		n, _ := l.Ranks(c.Devices)
		p.Ranks *= int64(n)
	}
	return p
}

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
	tested  bool   // see [StartForTest]
	folder  string // of the socket, if it is to be removed
}

var (
	_ plugin.Plugin    = (*Client)(nil)
	_ plugin.Estimator = (*Client)(nil)
)

// handshake is how long a plugin has to print its own, where the caller does not end the wait sooner.
var handshake = 5 * time.Second

// Start starts the plugin's process. dir is a folder of ours, for its socket; see [Client.Close]. first is the command that it
// will be asked to recognise, or nil: a built-in plugin begins with that while it is connected.
func Start(ctx context.Context, s Source, dir string, first *job.Command) (*Client, error) {
	if s.Verify != nil {
		if err := s.Verify(ctx); err != nil {
			return nil, &troubleError{err}
		}
	}
	path, args := s.Path, []string(nil)
	if path == "" {
		path, args = "/proc/self/exe", []string{word, s.Manifest.Name}
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(s.environ(os.Environ()), wire.Cookie(), socketDir+"="+dir)
	if s.Path != "" {
		cmd.Env = append(cmd.Env,
			"PYTHONDONTWRITEBYTECODE=1") // a file that it adds to its folder would be one that nobody pinned
	}
	if first != nil && s.Path == "" { // what another's program would print by then would be taken for its handshake
		told := s.told(*first)
		cmd.Env = append(cmd.Env, wire.Announce(&told)...)
	}
	logs := &tail{}
	conf := wire.ClientConfig()
	c := &Client{source: s, logs: logs}
	made := make(chan *process, 1)
	conf.RunnerFunc = func(_ hclog.Logger, ours *exec.Cmd, _ string) (runner.Runner, error) {
		// What go-plugin adds. Its folder for the socket is one of several; ours is removed with all that is in it.
		cmd.Env = append(slices.DeleteFunc(ours.Env, func(kv string) bool { return strings.HasPrefix(kv, socketDir+"=") }), cmd.Env...)
		var err error
		c.process, err = newProcess(cmd, dir, s.Path == "")
		if err == nil {
			made <- c.process
		}
		return c.process, err
	}
	conf.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: dir}
	conf.SkipHostEnv = true
	conf.StartTimeout = handshake
	if d, ok := ctx.Deadline(); ok {
		conf.StartTimeout = min(conf.StartTimeout, max(time.Until(d), time.Millisecond))
	} else if ctx.Done() != nil { // it decides, by a clock of its own
		conf.StartTimeout = 10 * time.Minute
	}
	conf.Logger = hclog.NewNullLogger() // what it would log of the plugin's words, Stderr has
	conf.Stderr = logs
	c.client = goplugin.NewClient(conf)
	protocol, err := c.connect(ctx, made)
	if err == nil {
		c.call, err = wire.Dispense(protocol)
	}
	if err != nil {
		c.Close()
		if c.process != nil {
			err = cmp.Or(wire.OtherVersion(c.process.handshake.String()), err)
		}
		return nil, c.trouble("starting it", err)
	}
	return c, nil
}

// connect starts the process, which made tells of, and connects to it. It ends with a context that has no deadline:
// go-plugin takes only a time.
func (c *Client) connect(ctx context.Context, made <-chan *process) (goplugin.ClientProtocol, error) {
	if _, limited := ctx.Deadline(); limited {
		return c.client.Client()
	}
	connected := make(chan struct{})
	go func() {
		select {
		case p := <-made:
			p.endWith(ctx, connected)
		case <-connected:
		}
	}()
	protocol, err := c.client.Client()
	close(connected)
	if ctx.Err() != nil && err != nil {
		err = errors.New(tooLate)
	}
	return protocol, err
}

// tooLate is go-plugin's error for a plugin that prints no handshake.
const tooLate = "timeout while waiting for plugin to start"

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
		if err != nil || f.Format != job.Python {
			continue
		}
		own := cmd.Source(f.Source.Path)
		if own == nil || own.SHA256 != f.Source.SHA256 || !bytes.Equal(own.Text, f.Source.Text) ||
			f.Served() && f.Path != own.Path {
			err = fmt.Errorf("its copy of %.100q differs from the text that launch sent", f.Path)
		}
	}
	if err != nil && !c.tested {
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
		sentences[i] = unit.Clip(s, maxWords)
	}
	return sentences
}

// ladders asks for the ladders of a job that was recognised. It is a plugin's last answer: its process is told to end while the
// answer is read.
func (c *Client) ladders(ctx context.Context, j *job.Job, d gpu.Device) (*ladder.Set, error) {
	var s ladder.Set
	asked := *j
	asked.Command = c.source.told(j.Command)
	then := func() { go c.Close() }
	if c.tested {
		then = func() {}
	}
	if err := c.call.CallThen(ctx, "Ladders", plugin.LaddersQuestion{Job: &asked, Device: d}, &s, then); err != nil {
		return nil, c.weigh("pricing the job", err)
	}
	if c.tested {
		return &s, nil
	}
	if err := s.Check(); err != nil {
		return nil, c.trouble("pricing the job", fmt.Errorf("its answer contradicts itself: %w", err))
	}
	return &s, nil
}

// StartForTest starts a plugin for a program that tests plugins: the process may be asked for ladders more than once,
// and is not ended after the first; and an answer is returned as it came, so that the test can report all that is wrong
// with it.
func StartForTest(ctx context.Context, s Source) (*Client, error) {
	socket, err := private.Temp("launch-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the plugin's socket: %w", err)
	}
	c, err := Start(ctx, s, socket, nil)
	if err != nil {
		os.RemoveAll(socket)
		return nil, err
	}
	c.tested, c.folder = true, socket
	return c, nil
}

// PID returns the number of the plugin's process; 0 if there is none.
func (c *Client) PID() int {
	if c.process == nil || c.process.cmd.Process == nil {
		return 0
	}
	return c.process.cmd.Process.Pid
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
	if c.folder != "" {
		defer os.RemoveAll(c.folder)
	}
	if c.process != nil {
		c.process.look()
	}
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
	err = plain(err)
	if c.process != nil {
		if why := c.process.watch.why(); why != nil {
			err = why
		}
	}
	if text := err.Error(); text != unit.Clip(text, maxWords) {
		err = errors.New(unit.Clip(text, maxWords))
	}
	err = &troubleError{fmt.Errorf("plugin %s: %s: %w", c.source.Manifest.Name, doing, err)}
	if said := c.logs.String(); said != "" {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// plain puts go-plugin's errors about the handshake in words for the plugin's user.
func plain(err error) error {
	printed, unrecognized := strings.CutPrefix(err.Error(), "Unrecognized remote plugin message: ")
	switch {
	case unrecognized && strings.HasPrefix(printed, "\nFailed to read"), strings.HasPrefix(err.Error(),
		"plugin exited before"):
		return errors.New("it ended before it had printed its handshake")
	case unrecognized:
		return fmt.Errorf("it printed %.200q on standard output, which is for its handshake alone", printed)
	case strings.HasPrefix(err.Error(), tooLate):
		return errors.New("it did not print its handshake in time")
	}
	return err
}

// troubleError is an [ErrTrouble] that says only what happened.
type troubleError struct{ error }

func (e *troubleError) Unwrap() []error { return []error{e.error, ErrTrouble} }

// Builtin are the sources of the built-in plugins.
func Builtin(manifests []plugin.Manifest) (sources []Source) {
	for _, m := range manifests {
		sources = append(sources, Source{Manifest: m})
	}
	return sources
}

// Matching returns the sources that bear a mark of the command, in their order.
func Matching(sources []Source, seen plugin.Seen) (out []Source) {
	for _, s := range sources {
		if slices.ContainsFunc(s.Manifest.Marks, func(m plugin.Mark) bool { return m.Matches(seen) }) {
			out = append(out, s)
		}
	}
	return out
}
