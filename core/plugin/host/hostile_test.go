package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
)

// prefix of the file name of a plugin's program.
const prefix = "launch-plugin-"

// script writes a program that is no plugin, or a hostile one.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, prefix+name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func gone(pid int) bool {
	for range 150 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // its parent may take its time
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// Whatever a program does that is no plugin, its whole group ends, and what it says is repeated within bounds.
func TestHostilePrograms(t *testing.T) {
	whole, patience := allowance, handshake
	allowance, handshake = func() int64 { return 200 << 20 }, time.Minute
	t.Cleanup(func() { allowance, handshake = whole, patience })
	for name, tt := range map[string]struct{ text, says string }{
		"tcp":     {`echo "1|1|tcp|127.0.0.1:1|grpc"`, "its handshake names"},
		"outside": {`echo "1|1|unix|/tmp/elsewhere|grpc"`, "its handshake names"},
		"climbs":  {`echo "1|1|unix|$PLUGIN_UNIX_SOCKET_DIR/../x/s|grpc"`, "its handshake names"},
		"newer":   {`echo "1|2|unix|$PLUGIN_UNIX_SOCKET_DIR/s|grpc"`, "launch is older, so update launch"},
		"older": {`echo "1|0|unix|$PLUGIN_UNIX_SOCKET_DIR/s|grpc"`,
			"the plugin is older, so build it again with a newer SDK"},
		"netrpc": {`echo "1|1|unix|$PLUGIN_UNIX_SOCKET_DIR/s|netrpc"`, "unsupported plugin protocol"},
		"words":  {`head -c 100000 /dev/zero | tr '\0' x`, "starting it"},
		"ends":   {`exit 3`, "it ended before it had printed its handshake"},
		"prints": {`echo hello; exec sleep 600`, `it printed "hello" on standard output`},
		"hangs":  {`exec sleep 600`, "it did not print its handshake in time"},
		"floods": {`(yes & exec cat /dev/zero) >&2`, "it did not print its handshake in time"},
		"eats":   {`head -c 600m /dev/zero | tail; exec sleep 600`, "of host memory, and were ended"},
		"shares": {`python3 -c 'import mmap; m = mmap.mmap(-1, 600 << 20); m.write(bytes(600 << 20))'
			exec sleep 600`, "of host memory, and were ended"},
		"hides": {`python3 -c 'import os, time; os.write(os.memfd_create("x"), bytes(600 << 20)); time.sleep(600)'`,
			"of host memory, and were ended"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pids := filepath.Join(dir, "pids")
			path := script(t, dir, name, "env -i sleep 600 & echo $! >"+pids+"; setsid sleep 600 & echo $! >>"+pids+"\n"+
				"env -i setsid sleep 600 & echo $! >>"+pids+"; sleep 0.3\n"+tt.text+"\n")
			began, limit := time.Now(), time.Minute // a start, and 600 MB, take their time on a busy machine
			if strings.Contains(tt.says, "in time") {
				limit = 4 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := Ask(ctx, path)
			if !errors.Is(err, ErrTrouble) || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 8000 {
				t.Errorf("%.1000v", err)
			}
			if took := time.Since(began); took > 2*limit {
				t.Errorf("it took %v", took)
			}
			b, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range strings.Fields(string(b)) {
				if pid := number(t, field); !gone(pid) {
					t.Errorf("process %d of the plugin is still there", pid)
				}
			}
		})
	}
}

func number(t *testing.T, s string) (n int) {
	t.Helper()
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// A program is told who the user is and where to make its socket: nobody else's folder, and no secret.
func TestWhatAProgramIsTold(t *testing.T) {
	for _, kv := range []string{"AWS_SECRET_ACCESS_KEY=s", "CUDA_VISIBLE_DEVICES=1", "LANG=C"} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	path := script(t, dir, "nosy", "{ env; stat -c 'mode=%a' $PLUGIN_UNIX_SOCKET_DIR; grep 'data size' /proc/self/limits; grep 'core file' /proc/self/limits; readlink /proc/self/fd/0; } >"+out+"\n")
	if _, err := Ask(t.Context(), path); err == nil {
		t.Fatal("it is a plugin")
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, want := range []string{"PATH=", "HOME=", "LANG=C\n", "mode=700\n", "4294967296", "/dev/null"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s: %s", want, got)
		}
	}
	for _, secret := range []string{"AWS_", "CUDA_", "GOPATH"} {
		if strings.Contains(got, secret) {
			t.Errorf("it is told %s: %s", secret, got)
		}
	}
}

// What leads a program to code beside its own reaches the plugin in the command, and not in its process.
func TestEnvironOfAnother(t *testing.T) {
	env := []string{"PYTHONPATH=/project", "PYTHONHOME=/x", "LD_PRELOAD=/x.so", "CUDA_VISIBLE_DEVICES=1", "HOME=/h"}
	for _, list := range [][]string{nil, {"PYTHON*", "LD_PRELOAD", "CUDA_*", "HOME"}} {
		s := Source{Manifest: plugin.Manifest{Name: "x", Env: list}, Path: "/x"}
		if got := s.environ(env); !slices.Equal(got, env[3:]) {
			t.Errorf("%v: its process has %v", list, got)
		}
		if got := s.told(job.Command{Env: env}).Env; !slices.Equal(got, env) {
			t.Errorf("%v: it is told %v", list, got)
		}
		s.Path = ""
		if got := s.environ(env); !slices.Equal(got, env) {
			t.Errorf("%v: a built-in one has %v", list, got)
		}
	}
}

// Only what nobody else could have written is run.
func TestMayRun(t *testing.T) {
	top := t.TempDir()
	make := func(name string) string {
		dir := filepath.Join(top, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return script(t, dir, "x", "exit 1\n")
	}
	chmod := func(path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := make("good")
	open := make("open")
	chmod(filepath.Dir(open), 0o777)
	sticky := make("sticky")
	chmod(filepath.Dir(sticky), 0o777|os.ModeSticky)
	below := make("above/below")
	chmod(filepath.Join(top, "above"), 0o777)
	tmp := make("tmp/mine")
	chmod(filepath.Join(top, "tmp"), 0o777|os.ModeSticky)
	file := make("file")
	chmod(file, 0o757)
	fifo := filepath.Join(top, "good", prefix+"fifo")
	if err := unix.Mkfifo(fifo, 0o755); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ path, says string }{
		"one's own":                          {good, ""},
		"in a folder of one's own below tmp": {tmp, ""},
		"a link to one's own":                {link(good, filepath.Join(top, "links", prefix+"a")), ""},
		"a relative link":                    {link("../good/"+prefix+"x", filepath.Join(top, "links", prefix+"b")), ""},
		"a link into an open folder":         {link(open, filepath.Join(top, "links", prefix+"c")), "others can write to"},
		"a link in an open folder":           {link(good, filepath.Join(filepath.Dir(open), prefix+"d")), "others can write to"},
		"a link to a link in an open folder": {link(filepath.Join(filepath.Dir(open), prefix+"d"), filepath.Join(top, "links", prefix+"d")), "others can write to"},
		"in an open folder":                  {open, "others can write to"},
		"in a sticky folder":                 {sticky, "others can write to"},
		"below an open folder":               {below, "others can write to"},
		"an open file":                       {file, "others can write to"},
		"a relative path":                    {"bin/" + prefix + "x", "relative"},
		"a FIFO":                             {fifo, "no file"},
		"a folder":                           {filepath.Join(top, "good"), "no file"},
		"what is not there":                  {filepath.Join(top, "nothing"), "no such file"},
		"a link to itself":                   {link("loop", filepath.Join(top, "loop")), "too many levels"},
	}
	if os.Geteuid() == 0 {
		theirs := make("theirs")
		theirFolder := make("their folder")
		for _, path := range []string{theirs, filepath.Dir(theirFolder)} {
			if err := os.Chown(path, 64102, 64102); err != nil {
				t.Fatal(err)
			}
		}
		cases["another's file"] = struct{ path, says string }{theirs, "belongs to uid"}
		cases["in another's folder"] = struct{ path, says string }{theirFolder, "belongs to uid"}
	}
	for name, tt := range cases {
		if err := MayRun(tt.path); (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
