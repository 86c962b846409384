package report

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A browser is a Chromium that a test drives, through the pipes of --remote-debugging-pipe: JSON documents that end
// with a zero byte (Chrome DevTools Protocol).
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string
	id      int
	runs    bool    // it has answered
	events  []event // that came while a call waited
}

type event struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// chromium starts Debian's Chromium without a network: every name resolves to nothing. A machine without Chromium
// skips.
func chromium(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("chromium is not started in a short test")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: what only a browser shows is not tested (apt-get install chromium)")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	args := []string{"--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir=" + profile,
		"--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "about:blank"}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	c := exec.CommandContext(ctx, path, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		in.Close() // it ends when its pipe does
		cancel()
		c.Wait()
		out.Close()
		// its processes go one after the other, and write into the profile until then
		for until := time.Now().Add(time.Minute); os.RemoveAll(profile) != nil; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Errorf("%s could not be removed", profile)
				break
			}
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Log", "Runtime", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) read() event {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	if err != nil && !b.runs { // such as in a container that forbids its sandbox
		b.t.Skipf("chromium does not start here, so what only a browser shows is not tested: %v", err)
	}
	if err != nil {
		b.t.Fatalf("chromium ended: %v", err)
	}
	b.runs = true
	var e event
	if err := json.Unmarshal(text[:len(text)-1], &e); err != nil {
		b.t.Fatal(err)
	}
	return e
}

// call makes a call and waits for its answer.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	m := map[string]any{"id": b.id, "method": method, "params": params}
	if params == nil {
		delete(m, "params")
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil && b.runs { // else the next read reports it
		b.t.Fatal(err)
	}
	for {
		e := b.read()
		if e.ID != b.id {
			b.events = append(b.events, e)
			continue
		}
		if e.Error != nil {
			b.t.Fatalf("%s: %s", method, e.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(e.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// open loads a page, and waits for its load event.
func (b *browser) open(path string) {
	b.t.Helper()
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for _, e := range b.events {
		if e.Method == "Page.loadEventFired" {
			return
		}
	}
	for {
		e := b.read()
		b.events = append(b.events, e)
		if e.Method == "Page.loadEventFired" {
			return
		}
	}
}

// value evaluates an expression in the page.
func (b *browser) value(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Text)
	}
	return r.Result.Value
}

// complaints are what the browser's console has, and what the page has asked the network for.
func (b *browser) complaints() (out []string) {
	for _, e := range b.events {
		switch e.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			out = append(out, string(e.Params))
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			json.Unmarshal(e.Params, &r)
			if !strings.HasPrefix(r.Request.URL, "file://") && r.Request.URL != "data:," {
				out = append(out, "asked for "+r.Request.URL)
			}
		}
	}
	return out
}

// screen sets the size of the screen, and whether it is dark.
func (b *browser) screen(width int, dark bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1,
		"mobile": width < 500}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": scheme}}}, nil)
}

// picture writes a picture of the whole page where LAUNCH_TEST_PICTURES names a folder.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("LAUNCH_TEST_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// Chromium opens the pages without an error and without the network, on a wide screen and on a phone, light and dark.
func TestChromium(t *testing.T) {
	b := chromium(t)
	dir := state(t, nil)
	bad := sweepDoc(t, dir)
	bad.Rows[2].Assignment[0].Value, bad.Rows[2].Peak = hostile, nil
	for name, r := range map[string]Report{"run": OfRun(gathered(t, dir)), "sweep": ofSweep(sweepDoc(t, dir)),
		"hostile": ofSweep(bad)} {
		text, err := HTML(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{1100, 360} {
			for _, dark := range []bool{false, true} {
				b.screen(width, dark)
				b.open(path)
				b.check(name, width, dark)
			}
		}
		if name != "run" {
			b.sort(name)
		}
	}
}

// check looks at the page that is open.
func (b *browser) check(name string, width int, dark bool) {
	b.t.Helper()
	where := fmt.Sprintf("%s-%d-%v", name, width, map[bool]string{false: "light", true: "dark"}[dark])
	for _, c := range b.complaints() {
		b.t.Errorf("%s: %s", where, c)
	}
	if got := b.value("document.documentElement.scrollWidth"); got.(float64) > float64(width) {
		b.t.Errorf("%s: the page is %v wide", where, got)
	}
	want := map[bool]string{false: "rgb(255, 255, 255)", true: "rgb(13, 17, 23)"}[dark]
	if got := b.value("getComputedStyle(document.body).backgroundColor"); got != want {
		b.t.Errorf("%s: the background is %v: does the style count?", where, got)
	}
	if got := b.value("document.querySelectorAll('svg.plot path').length"); got.(float64) < 20 {
		b.t.Errorf("%s: %v lines are drawn", where, got)
	}
	small := "Array.prototype.filter.call(document.querySelectorAll('svg.plot'), " +
		"s => s.getBoundingClientRect().width < 600).length"
	if got := b.value(small); got != 0.0 {
		b.t.Errorf("%s: %v plots are too small to read", where, got)
	}
	hinted := "Array.prototype.filter.call(document.querySelectorAll('.scroll'), " +
		"e => (e.scrollWidth > e.clientWidth + 1) !== " +
		"(getComputedStyle(e, '::before').content.indexOf('scroll sideways') >= 0)).length"
	if got := b.value(hinted); got != 0.0 {
		b.t.Errorf("%s: %v plots or tables are wider than the page without a hint, or have one in vain", where, got)
	}
	tall := "Array.prototype.filter.call(document.querySelectorAll('details[open] tbody tr'), " +
		"r => r.getBoundingClientRect().height > 60).length"
	if got := b.value(tall); width < 500 && got != 0.0 {
		b.t.Errorf("%s: %v rows of what was changed are blank but for what lies beside the page", where, got)
	}
	b.picture(where)
}

// sort sorts the table of a sweep by its peaks, up and down, and points at a row.
func (b *browser) sort(name string) {
	b.t.Helper()
	click := "Array.prototype.find.call(document.querySelectorAll('th button'), e => e.textContent === 'peak').click();"
	order := "Array.prototype.map.call(document.querySelectorAll('table.sort tbody tr'), r => r.dataset.key).join(' ')"
	peaks := "Array.prototype.map.call(document.querySelectorAll('table.sort tbody tr'), r => { var d = " +
		"r.querySelector('data[data-at$=peak_bytes]'); return d ? Number(d.value) : null })"
	before := b.value(order)
	for _, down := range []bool{false, true} {
		all := b.value("(() => {" + click + " return " + peaks + "})()").([]any)
		last := -1.0
		for i, v := range all {
			n, known := v.(float64)
			if !known {
				if i != len(all)-1 {
					b.t.Errorf("%s: what is not known is not the last: %v", name, all)
				}
				continue
			}
			if last >= 0 && (down && n > last || !down && n < last) {
				b.t.Errorf("%s, down %v: sorted as %v", name, down, all)
			}
			last = n
		}
	}
	if after := b.value(order); after == before {
		b.t.Errorf("%s: nothing was sorted", name)
	}
	point := "(() => { document.querySelector('tr[data-key=t9]').dispatchEvent(new Event('mouseenter')); return " +
		"document.querySelectorAll('svg .k.on').length })()"
	if got := b.value(point); got != 2.0 {
		b.t.Errorf("%s: a row has %v shapes in the two plots", name, got)
	}
	if got := b.value("typeof window.alerted"); got != "undefined" {
		b.t.Errorf("%s: a script ran", name)
	}
}
