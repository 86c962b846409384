// Package host finds plugins, picks the one that a command belongs to, and asks it: in a process of its own or, one that is linked in
// where nothing will be started, in this one.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
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
	source Source
	client *goplugin.Client
	call   *wire.Caller
	logs   *tail
}

var (
	_ plugin.Plugin    = (*Client)(nil)
	_ plugin.Estimator = (*Client)(nil)
)

// Start starts the plugin's process. dir is a folder of ours, for its socket; see [Client.Close]. first is the command that it
// will be asked to recognise, or nil.
func Start(ctx context.Context, s Source, dir string, first *job.Command) (*Client, error) {
	path, args := s.Path, []string(nil)
	if path == "" {
		path, args = "/proc/self/exe", []string{word, s.Manifest.Name}
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), wire.Cookie(), "PLUGIN_UNIX_SOCKET_DIR="+dir)
	if first != nil {
		cmd.Env = append(cmd.Env, wire.Announce(first)...)
	}
	logs := &tail{}
	conf := wire.ClientConfig()
	conf.Cmd = cmd
	conf.SkipHostEnv = true
	conf.StartTimeout = 5 * time.Second
	if d, ok := ctx.Deadline(); ok {
		conf.StartTimeout = min(conf.StartTimeout, max(time.Until(d), time.Millisecond))
	}
	conf.Logger = hclog.NewNullLogger() // what it would log of the plugin's words, Stderr has
	conf.Stderr = logs
	c := &Client{source: s, client: goplugin.NewClient(conf), logs: logs}
	var protocol goplugin.ClientProtocol
	err := onThread(func() (err error) {
		// In its own process group, so that it cannot read the user's terminal and Ctrl-C passes it by; and dead as
		// soon as launch is, for go-plugin leaves its processes behind when the host is killed.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		protocol, err = c.client.Client()
		return err
	})
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

// Recognize implements [plugin.Plugin].
func (c *Client) Recognize(ctx context.Context, cmd job.Command) (*job.Job, error) {
	var r plugin.Recognition
	switch err := c.call.Call(ctx, "Recognize", cmd, &r); {
	case errors.Is(err, wire.ErrDeclined):
		return nil, fmt.Errorf("%w: %s", plugin.ErrNotMine, c.source.Manifest.Name)
	case err != nil:
		return nil, c.weigh("reading the command", err)
	case r.Need != nil:
		return nil, r.Need
	case r.Caution != "":
		return nil, &plugin.Caution{Why: r.Caution}
	case r.Job == nil:
		return nil, c.trouble("reading the command", errors.New("it answered with no job"))
	}
	r.Job.Command, r.Job.Plugin = cmd, c.source.Manifest.Name // what was asked is not the plugin's to change
	return r.Job, nil
}

// Ladders implements [plugin.Plugin]. What a plugin answers is checked: it is another program. It is a plugin's last
// answer: its process is told to end while the answer is read.
func (c *Client) Ladders(ctx context.Context, j *job.Job, d gpu.Device) (*ladder.Set, error) {
	var s ladder.Set
	if err := c.call.CallThen(ctx, "Ladders", plugin.LaddersQuestion{Job: j, Device: d}, &s, func() { go c.Close() }); err != nil {
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
	// A stopped process never answers go-plugin's request to shut down, which has no deadline.
	if r := c.client.ReattachConfig(); r != nil && r.Pid > 0 {
		syscall.Kill(-r.Pid, syscall.SIGKILL)
		syscall.Kill(r.Pid, syscall.SIGKILL)
	}
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// ErrTrouble is wrapped by errors that say that the plugin itself failed: it crashed, hung, or contradicted itself.
// Every other error is its answer, and about the command.
var ErrTrouble = errors.New("the plugin failed")

// weigh tells a plugin's answer from a plugin's failure.
func (c *Client) weigh(doing string, err error) error {
	var answer *wire.Answer
	if errors.As(err, &answer) {
		return answer
	}
	return c.trouble(doing, err)
}

func (c *Client) trouble(doing string, err error) error {
	err = &troubleError{fmt.Errorf("plugin %s: %s: %w", c.source.Manifest.Name, doing, err)}
	if said := c.logs.String(); said != "" {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// troubleError is an [ErrTrouble] that says only what happened.
type troubleError struct{ error }

func (e *troubleError) Unwrap() []error { return []error{e.error, ErrTrouble} }

// Find lists the plugins: the built-in ones, then programs launch-plugin-NAME in dirs, in order. The first of a name
// wins, so that nobody's program takes a built-in one's place unseen; shadowed ones are reported in warnings.
func Find(builtins []plugin.Manifest, dirs []string, ask func(path string) (plugin.Manifest, error)) (found []Source, warnings []string) {
	for _, m := range builtins {
		found = append(found, Source{Manifest: m})
	}
	known := func(name string) bool {
		return slices.ContainsFunc(found, func(s Source) bool { return s.Manifest.Name == name })
	}
	var searched []os.FileInfo
	for _, dir := range dirs {
		for _, path := range programs(dir, &searched) {
			name := strings.TrimPrefix(filepath.Base(path), prefix)
			if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			if known(name) {
				warnings = append(warnings, fmt.Sprintf("plugin %s is left out: there is another %s before it", path, name))
				continue
			}
			m, err := ask(path)
			if err == nil && m.Name != name {
				err = fmt.Errorf("it calls itself %q, and its file would have to be %s%s", m.Name, prefix, m.Name)
			}
			if err != nil {
				warnings = append(warnings, fmt.Sprintf("plugin %s is left out: %v", path, err))
				continue
			}
			found = append(found, Source{Manifest: m, Path: path})
		}
	}
	return found, warnings
}

// programs lists the files of a folder that are named as plugins. A folder that was searched under another name, as /bin
// is /usr/bin, is passed over.
func programs(dir string, searched *[]os.FileInfo) (paths []string) {
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
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.Sort(paths)
	return paths
}

// prefix of the file name of a plugin of somebody else's.
const prefix = "launch-plugin-"

// Pick returns the first source that bears a mark of the command.
func Pick(sources []Source, seen plugin.Seen) (Source, bool) {
	for _, s := range sources {
		if slices.ContainsFunc(s.Manifest.Marks, func(m plugin.Mark) bool { return m.Matches(seen) }) {
			return s, true
		}
	}
	return Source{}, false
}
