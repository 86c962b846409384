package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

var failed = Notice{Kind: "run", Name: "20260102-x", Job: "sisr · SRResNet", Ending: "out of memory",
	Why: "CUDA out of memory <!channel>", Verdict: "allocator", Code: 1, Attempts: 2, Took: 3 * 3600, Peak: 11 * unit.GiB,
	PeakIs: "used"}

func places(t *testing.T, list string) []NoticePlace {
	t.Helper()
	all, err := NoticePlaces(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A received request.
type received struct {
	header http.Header
	body   string
}

// serve answers each request with the next of the codes, and the last of them again.
func serve(t *testing.T, codes ...int) (*httptest.Server, chan received) {
	got, n := make(chan received, 9), atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- received{r.Header, r.Method + " " + string(text)}
		code := codes[min(int(n.Add(1)), len(codes))-1]
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	return server, got
}

func TestWebhook(t *testing.T) {
	server, got := serve(t, 204)
	if errs := (Sender{}).Send(t.Context(), places(t, server.URL+"/hook?x=1"), failed); len(errs) > 0 {
		t.Fatal(errs)
	}
	r := <-got
	text, post := strings.CutPrefix(r.body, "POST ")
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil || !post {
		t.Fatalf("%v in %s", err, r.body)
	}
	for key, want := range map[string]any{"version": 1.0, "kind": "run", "name": "20260102-x", "ending": "out of memory",
		"verdict": "allocator", "exit_code": 1.0, "attempts": 2.0, "took_seconds": 10800.0,
		"peak_bytes": float64(11 * unit.GiB), "peak_is": "used", "job": "sisr · SRResNet"} {
		if m[key] != want {
			t.Errorf("%s is %v, want %v", key, m[key], want)
		}
	}
	line := "launch: run 20260102-x: out of memory after 3h0m · CUDA out of memory <!channel> · exit code 1 · " +
		"2 attempts · peak 11.0 GiB used · sisr · SRResNet"
	if m["content"] != line { // Discord
		t.Errorf("content is %v", m["content"])
	}
	if m["text"] != strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(line) { // Slack: nobody is called
		t.Errorf("text is %v", m["text"])
	}
	if fmt.Sprint(m["allowed_mentions"]) != "map[parse:[]]" {
		t.Errorf("mentions are %v", m["allowed_mentions"])
	}
	if _, has := m["host"]; has {
		t.Error("the name of the machine was sent")
	}
}

func TestPlainWebhook(t *testing.T) {
	server, got := serve(t, 200)
	if errs := (Sender{}).Send(t.Context(), places(t, "plain+"+server.URL+"/topic"), failed); len(errs) > 0 {
		t.Fatal(errs)
	}
	r := <-got
	if !strings.HasPrefix(r.body, "POST launch: run 20260102-x: out of memory after 3h0m") ||
		r.header.Get("Title") != "launch: run out of memory" {
		t.Errorf("%+v", r)
	}
}

// A server that has trouble is asked a second time and no third one; one that refuses, or that sends elsewhere, is not.
func TestTries(t *testing.T) {
	for _, tt := range []struct {
		codes []int
		tries int
		err   string
	}{
		{[]int{200}, 1, ""}, {[]int{503, 200}, 2, ""}, {[]int{429, 200}, 2, ""}, {[]int{503, 503, 200}, 2, "HTTP 503"},
		{[]int{404, 200}, 1, "HTTP 404"}, {[]int{301, 200}, 1, "another address (HTTP 301)"},
		{[]int{307, 200}, 1, "another address (HTTP 307)"},
	} {
		server, got := serve(t, tt.codes...)
		errs := Sender{}.Send(t.Context(), places(t, server.URL+"/secret-path"), failed)
		if len(got) != tt.tries || fmt.Sprint(errs) != "[]" && tt.err == "" || !strings.Contains(fmt.Sprint(errs), tt.err) {
			t.Errorf("%v: %d tries, %v", tt.codes, len(got), errs)
		}
		if strings.Contains(fmt.Sprint(errs), "secret") {
			t.Errorf("%v has the address", errs)
		}
	}
}

// A server that takes connections and never answers costs the limit and no more; one that is gone costs nothing. No
// error has the address.
func TestDeadServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, _ := net.Listen("tcp", "127.0.0.1:0")
	gone.Close()
	for _, at := range []string{silent.Addr().String(), gone.Addr().String()} {
		done := make(chan []error)
		go func() {
			s := Sender{Limit: 200 * time.Millisecond}
			done <- s.Send(context.Background(), places(t, "http://"+at+"/secret-path"), failed)
		}()
		select {
		case errs := <-done:
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "the notice to the webhook at 127.0.0.1 was not sent: ") ||
				strings.Contains(errs[0].Error(), "secret") {
				t.Errorf("%v", errs)
			}
		case <-time.After(time.Minute):
			t.Fatal("it hangs")
		}
	}
}

func TestParse(t *testing.T) {
	all := places(t, " bell, desktop,https://a.example/b?c ,plain+https://n.example/t,http://localhost:1/,http://[::1]/x")
	var names []string
	for _, p := range all {
		names = append(names, p.String())
	}
	if want := []string{"the bell", "the desktop", "the webhook at a.example", "the webhook at n.example",
		"the webhook at localhost", "the webhook at ::1"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for _, bad := range []string{"beep", "http://a.example/secret", "http://localhost.example/secret", "ftp://a/secret",
		"https:///secret", "https://a b/secret", "file:///secret", "//a/secret"} {
		if _, err := NoticePlaces(bad); err == nil || strings.Contains(err.Error(), "secret") && strings.Contains(bad,
			"://") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestNoticeMasked(t *testing.T) {
	n := failed
	n.Why, n.Job = "token=abcdef123456 in /home/ann/x\x1b]0;", "a\nb"+strings.Repeat("x", 1000)
	n = n.Masked(record.Mask{Home: "/home/ann", User: "ann"})
	if n.Why != "token=*** in ~/x ]0;" || !strings.HasPrefix(n.Job, "a bxx") || len([]rune(n.Job)) != most {
		t.Errorf("%q %q", n.Why, n.Job)
	}
}

func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("OUT", out)
	send := func(ctx context.Context, limit time.Duration, text string) []error {
		return Sender{Limit: limit}.Send(ctx, []NoticePlace{NoticeCommand(text)}, failed)
	}
	if errs := send(t.Context(), 0, `cat > "$OUT"; echo "$NOTICE_TITLE; $NOTICE_TEXT" >> "$OUT"`); len(errs) > 0 {
		t.Fatal(errs)
	}
	text, _ := os.ReadFile(out)
	lines := strings.Split(string(text), "\n")
	var n Notice
	if err := json.Unmarshal([]byte(lines[0]), &n); err != nil || n.Ending != "out of memory" || n.Version != 1 {
		t.Errorf("%v: %s", err, text)
	}
	if !strings.HasPrefix(lines[1], "launch: run out of memory; launch: run 20260102-x: out of memory") {
		t.Errorf("%s", lines[1])
	}
	if errs := send(t.Context(), 0, "echo no way >&2; exit 3"); len(errs) != 1 ||
		errs[0].Error() != "the notice to the command was not sent: exit status 3: no way" {
		t.Errorf("%v", errs)
	}
	// what it has started ends with it: the file is never written
	late := filepath.Join(t.TempDir(), "late")
	t.Setenv("LATE", late)
	fifo := filepath.Join(t.TempDir(), "fifo")
	t.Setenv("FIFO", fifo)
	errs := send(t.Context(), 200*time.Millisecond, `mkfifo "$FIFO"; (cat "$FIFO"; touch "$LATE") & wait`)
	if len(errs) != 1 {
		t.Errorf("%v", errs)
	}
	if f, err := os.OpenFile(fifo, os.O_WRONLY|0x800, 0); err == nil { // O_NONBLOCK: fails where nobody reads
		f.Close()
		t.Error("a child of the command outlived it")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := send(ctx, 0, "true"); len(errs) != 1 {
		t.Errorf("a notice was sent after a signal: %v", errs)
	}
}

func TestTerminal(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct{ list, env, want string }{
		{"bell", "", "\a"},
		{"desktop", "SSH_TTY=/dev/pts/1", "\x1b]9;launch: run 20260102-x: out of memory"},
		{"desktop", "TERM=foot", "\x1b]777;notify;launch: run out of memory;launch: run 20260102-x: out of memory"},
		{"desktop", "TMUX=x", "\x1bPtmux;\x1b\x1b]9;launch: run 20260102-x"},
	} {
		var out strings.Builder
		name, value, _ := strings.Cut(tt.env, "=")
		s := Sender{Terminal: &out, Getenv: func(n string) string {
			if n == name {
				return value
			}
			return ""
		}}
		errs := s.Send(t.Context(), places(t, tt.list), failed)
		if len(errs) > 0 || !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%s, %s: %q %v", tt.list, tt.env, out.String(), errs)
		}
	}
	s := Sender{Terminal: broken{}, Limit: 100 * time.Millisecond}
	if errs := s.Send(t.Context(), places(t, "bell"), failed); len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// On a desktop notify-send shows the notice; over ssh the terminal does, as that desktop is not the user's.
func TestDesktop(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("OUT", filepath.Join(dir, "out"))
	script := "#!/bin/sh\nfor a; do echo \"$a\"; done > \"$OUT\"\n"
	if err := os.WriteFile(filepath.Join(dir, "notify-send"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, remote := range []bool{false, true} {
		os.Remove(filepath.Join(dir, "out"))
		var out strings.Builder
		s := Sender{Terminal: &out, Getenv: func(n string) string {
			if n == "DISPLAY" || remote && n == "SSH_CONNECTION" {
				return "x"
			}
			return ""
		}}
		errs := s.Send(t.Context(), places(t, "desktop"), failed)
		shown, err := os.ReadFile(filepath.Join(dir, "out"))
		if len(errs) > 0 || (err == nil) == remote || (out.Len() > 0) != remote {
			t.Errorf("remote %v: %v %q %q", remote, errs, shown, out.String())
		}
		want := "--app-name=launch\n--\nlaunch: run out of memory\nlaunch: run 2026"
		if !remote && (!strings.HasPrefix(string(shown), want) || !strings.Contains(string(shown), "&lt;!channel&gt;")) {
			t.Errorf("%s", shown)
		}
	}
}
