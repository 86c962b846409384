package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// A notice is sent when a run or a sweep ends: by the terminal's bell, on the desktop, to a command, or to
// a web address.
//
// A notice changes nothing of what it reports. It has a limit of time, it is sent at most twice, and what goes wrong is
// an error for the caller to print. A web address and a command are often secrets, so no error has them.

// NoticeVersion is the version of [Notice] as JSON.
const NoticeVersion = 1

// A Notice is what is sent.
type Notice struct {
	Version int    `json:"version"`
	Kind    string `json:"kind"`           // "run" or "sweep"
	Name    string `json:"name,omitempty"` // of the run or the sweep, as `launch show` takes it; "" if it has no record
	Job     string `json:"job,omitempty"`  // the recognised job, in one line
	Ending  string `json:"ending"`
	Why     string `json:"why,omitempty"` // in one line; "" after a success
	// Verdict is the kind of failure, as `launch explain` names it; "" if there was none.
	Verdict  string     `json:"verdict,omitempty"`
	Code     int        `json:"exit_code"` // of launch
	Attempts int        `json:"attempts,omitempty"`
	Trials   string     `json:"trials,omitempty"` // of a sweep: how many of each state
	Took     float64    `json:"took_seconds,omitempty"`
	Peak     unit.Bytes `json:"peak_bytes,omitempty"` // the largest memory that was measured
	PeakIs   string     `json:"peak_is,omitempty"`    // the quantity: used, reserved, allocated, data
	Host     string     `json:"host,omitempty"`       // the name of the machine, only if the user asks for it
}

// Masked returns the notice without secrets, home folders and control characters.
func (n Notice) Masked(m record.Mask) Notice {
	for _, text := range []*string{&n.Name, &n.Job, &n.Ending, &n.Why, &n.Verdict, &n.Trials, &n.PeakIs, &n.Host} {
		*text = unit.Clip(m.Text(oneLine(*text)), most)
	}
	return n
}

// title is the notice in a few words.
func (n Notice) title() string { return "launch: " + n.Kind + " " + n.Ending }

// text is the notice in one line.
func (n Notice) text() string {
	parts := []string{n.Ending}
	if n.Took > 0 {
		parts[0] += " after " + length(n.Took)
	}
	if n.Why != "" {
		parts = append(parts, n.Why)
	}
	if n.Trials != "" {
		parts = append(parts, n.Trials)
	}
	parts = append(parts, fmt.Sprintf("exit code %d", n.Code))
	if n.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", n.Attempts))
	}
	if n.Peak > 0 {
		parts = append(parts, fmt.Sprintf("peak %v %s", n.Peak, n.PeakIs))
	}
	head := strings.TrimSpace("launch: " + n.Kind + " " + n.Name)
	if n.Host != "" {
		head += " on " + n.Host
	}
	if n.Job != "" {
		parts = append(parts, n.Job)
	}
	return head + ": " + strings.Join(parts, " · ")
}

func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Minute {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(100 * time.Millisecond).String()
}

var controls = lazy.MustCompile(`[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}\x{202a}-\x{202e}\x{2066}-\x{2069}]+`)

// oneLine replaces control characters, which could end an escape sequence, and marks that change the direction.
func oneLine(s string) string { return controls.ReplaceAllString(strings.ToValidUTF8(s, "?"), " ") }

// most is how many characters of a text are sent.
const most = 400

// A kind is a way to send a notice.
type kind int

const (
	bell kind = iota
	desktop
	webhook
	command
)

// A NoticePlace is where a notice is sent.
type NoticePlace struct {
	kind    kind
	url     *url.URL // of a webhook
	plain   bool     // the webhook receives the text in place of JSON
	command string   // for /bin/sh
}

// NoticeCommand returns the place of a command of /bin/sh.
func NoticeCommand(text string) NoticePlace { return NoticePlace{kind: command, command: text} }

// NoticePlaces reads places as a list: bell, desktop, https://…, plain+https://….
func NoticePlaces(list string) (places []NoticePlace, err error) {
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); word {
		case "":
		case "bell":
			places = append(places, NoticePlace{kind: bell})
		case "desktop":
			places = append(places, NoticePlace{kind: desktop})
		default:
			p, err := parseURL(word)
			if err != nil {
				return nil, err
			}
			places = append(places, p)
		}
	}
	return places, nil
}

// parseURL reads the address of a webhook. Its errors do not have the address, which is a secret.
func parseURL(text string) (NoticePlace, error) {
	address, plain := strings.CutPrefix(text, "plain+")
	if !strings.Contains(address, "://") {
		return NoticePlace{}, fmt.Errorf("%.20q is not one of bell, desktop, and an address such as https://ntfy.sh/TOPIC",
			text)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return NoticePlace{}, fmt.Errorf("a webhook's address cannot be read")
	case u.Scheme == "http" && !sendHere(u.Hostname()):
		return NoticePlace{}, fmt.Errorf("the webhook at %s is to be reached by https: by http everybody on "+
			"the way can read it", u.Hostname())
	case u.Scheme != "https" && u.Scheme != "http":
		return NoticePlace{}, fmt.Errorf("a webhook's address begins with https://, not with %s://", u.Scheme)
	}
	return NoticePlace{kind: webhook, url: u, plain: plain}, nil
}

// String names a place without its secret.
func (p NoticePlace) String() string {
	switch p.kind {
	case bell:
		return "the bell"
	case desktop:
		return "the desktop"
	case command:
		return "the command"
	}
	return "the webhook at " + p.url.Hostname()
}

// A Sender sends notices. The zero value is ready.
type Sender struct {
	// Limit is how long all of it may take; 0: [NoticeLimit].
	Limit time.Duration
	// Terminal receives what is for the user's terminal; nil: the terminal of this process.
	Terminal io.Writer
	// Getenv reads the environment; nil: os.Getenv.
	Getenv func(string) string
}

// NoticeLimit is how long sending may take by default.
const NoticeLimit = 10 * time.Second

// Send sends a notice to all places at the same time, and returns what went wrong: at most one error a place. It
// returns after the limit at the latest, or soon after ctx is done.
func (s Sender) Send(ctx context.Context, places []NoticePlace, n Notice) []error {
	s.Limit = cmp.Or(s.Limit, NoticeLimit)
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	n.Version = NoticeVersion
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	waiting := map[int]NoticePlace{}
	for i, p := range places {
		waiting[i] = p
		all.Go(func() {
			err := s.send(ctx, p, n)
			mu.Lock()
			defer mu.Unlock()
			delete(waiting, i)
			if err != nil {
				errs = append(errs, fmt.Errorf("the notice to %v was not sent: %w", p, err))
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done: // all of it heeds ctx, but a write to a terminal that is stopped (Ctrl-S)
		case <-time.After(graceTime):
		}
	}
	mu.Lock()
	defer mu.Unlock()
	out := slices.Clone(errs) // what comes later is too late
	for i := range places {
		if p, ok := waiting[i]; ok {
			out = append(out, fmt.Errorf("the notice to %v was not sent: it took longer than %v", p, s.Limit))
		}
	}
	return out
}

// graceTime is how long what was cancelled may take to return.
const graceTime = 2 * time.Second

func (s Sender) send(ctx context.Context, p NoticePlace, n Notice) error {
	switch p.kind {
	case bell:
		return s.terminal("\a")
	case desktop:
		return s.desktop(ctx, n)
	case command:
		return runCommand(ctx, p.command, n)
	}
	return s.post(ctx, p, n)
}
