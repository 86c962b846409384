package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// demo is the run in testdata: make demo, which runs out of memory twice and finishes. lrs is make demo-sweep.
const demo = "20261123-130324.338-6186"

// state is a copy of the recorded state folder, as its owner has it. mend may change the text of each file.
func state(t *testing.T, mend func(path string, text []byte) []byte) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS("testdata/state")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && mend != nil {
			text = mend(path, text)
		}
		return errors.Join(err, os.Remove(path), os.WriteFile(path, text, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

var (
	ann  = record.Mask{Home: "/cluster/ann", User: "ann"}
	noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
)

// gathered reads the recorded run.
func gathered(t *testing.T, dir string) Input {
	t.Helper()
	in, err := Gather(record.In(dir), demo, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Mask, in.Version, in.Now = ann, "1.2.3", noon
	return in
}

func sweepDoc(t *testing.T, dir string) ui.SweepDoc {
	t.Helper()
	h, err := local.In(dir).Read("lrs")
	if err != nil {
		t.Fatal(err)
	}
	return ui.SweepDocument(h, local.In(dir).Folder("lrs"), 0)
}

func ofSweep(d ui.SweepDoc) Report {
	return OfSweep(SweepInput{Doc: d, Mask: ann, Version: "1.2.3", Now: noon})
}

// parsed is the page as a browser reads it.
func parsed(t *testing.T, r Report) (*html.Node, string) {
	t.Helper()
	text, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc, string(text)
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func elements(doc *html.Node, name string) (out []*html.Node) {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && (n.Data == name || name == "*") {
			out = append(out, n)
		}
	}
	return out
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// resolve finds the number at a place of a JSON document. A "*" is the sum over a list. Keys may have dots.
func resolve(doc any, path string) (float64, error) {
	switch v := doc.(type) {
	case json.Number:
		if path != "" {
			return 0, fmt.Errorf("%q is below a number", path)
		}
		return v.Float64()
	case []any:
		head, rest, _ := strings.Cut(path, ".")
		if head == "*" {
			sum := 0.0
			for _, e := range v {
				n, err := resolve(e, rest)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		}
		i, err := strconv.Atoi(head)
		if err != nil || i >= len(v) {
			return 0, fmt.Errorf("%q is no index of %d", head, len(v))
		}
		return resolve(v[i], rest)
	case map[string]any:
		for key, e := range v {
			if rest, ok := strings.CutPrefix(path+".", key+"."); ok {
				return resolve(e, strings.TrimSuffix(rest, "."))
			}
		}
	}
	return 0, fmt.Errorf("there is no %q", path)
}

// sameNumbers compares every number of a page with the JSON document of the same record, and returns their places.
func sameNumbers(t *testing.T, page *html.Node, document any) (places []string) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, n := range elements(page, "data") {
		at := attr(n, "data-at")
		want, err := resolve(doc, at)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if got, err := strconv.ParseFloat(attr(n, "value"), 64); err != nil || got != want {
			t.Errorf("%s is %s on the page and %v in the JSON", at, attr(n, "value"), want)
		}
		if strings.HasSuffix(at, "bytes") && textOf(n) != unit.Bytes(want).String() {
			t.Errorf("%s reads %q and is %v", at, textOf(n), unit.Bytes(want))
		}
		places = append(places, at)
	}
	return places
}

// The page of a run has the numbers of `launch show --json`, and none is missing that matters.
func TestSameNumbersAsShow(t *testing.T) {
	in := gathered(t, state(t, nil))
	page, text := parsed(t, OfRun(in))
	h := in.History
	places := sameNumbers(t, page, map[string]any{"version": record.Version, "id": h.ID, "dir": h.Dir, "torn": h.Torn,
		"running": false, "events": h.Events})
	var want []string
	for i, e := range h.Events {
		if e.Attempt == nil {
			continue
		}
		at := fmt.Sprintf("events.%d.attempt.", i)
		want = append(want, at+"outcome.peak_bytes", at+"outcome.took_ns", at+"plan.room_bytes")
		for k, c := range e.Attempt.Plan.Choices {
			want = append(want, fmt.Sprintf("%splan.choices.%d.estimate.items.*.bytes", at, k))
			for m := range e.Attempt.Outcome.Measured[c.Phase] {
				want = append(want, fmt.Sprintf("%soutcome.measured.%s.%d.bytes", at, c.Phase, m))
			}
		}
	}
	if len(want) < 15 {
		t.Errorf("the record has only %q", want)
	}
	for _, at := range want {
		if !slices.Contains(places, at) {
			t.Errorf("%s is not on the page", at)
		}
	}
	if n := len(places); n < 85 {
		t.Errorf("the page has only %d numbers", n)
	}
	for _, s := range []string{"attempt 3", "micro-batch 16 × accumulation 2", "batch_size_per_gpu", "predicted, training",
		"out of memory", "room 800 MiB", "predicted for validation: 1.74 GiB"} {
		if !strings.Contains(text, s) {
			t.Errorf("the page lacks %q", s)
		}
	}
}

// The page of a sweep has the numbers of `launch sweep status --json`.
func TestSameNumbersAsStatus(t *testing.T) {
	d := sweepDoc(t, state(t, nil))
	page, _ := parsed(t, ofSweep(d))
	places := sameNumbers(t, page, d)
	for i, row := range d.Rows {
		for _, what := range []string{"trial", "peak_bytes", "samples_per_second", "seconds", "micro_batch", "attempts",
			"metrics.psnr.best.value"} {
			if at := fmt.Sprintf("rows.%d.%s", i, what); !slices.Contains(places, at) {
				t.Errorf("%s is not on the page", at)
			}
		}
		if n := len(elementsWith(page, "data-key", rowKey(row.Trial))); n < 3 {
			t.Errorf("trial %d is in %d of the table and the two plots", row.Trial, n)
		}
	}
	if len(d.Rows) != 12 {
		t.Errorf("%d rows", len(d.Rows))
	}
}

func elementsWith(doc *html.Node, name, value string) (out []*html.Node) {
	for _, n := range elements(doc, "*") {
		if attr(n, name) == value {
			out = append(out, n)
		}
	}
	return out
}

// checkPage fails if the page could load anything, could run any script but its own, or is too large to mail.
func checkPage(t *testing.T, r Report) *html.Node {
	t.Helper()
	doc, text := parsed(t, r)
	if len(text) >= 2_000_000 {
		t.Errorf("the page has %d bytes", len(text))
	}
	scripts, styles, metas := elements(doc, "script"), elements(doc, "style"), elements(doc, "meta")
	if len(scripts) != 1 || len(styles) != 1 {
		t.Fatalf("the page has %d scripts and %d styles", len(scripts), len(styles))
	}
	if textOf(scripts[0]) != pageScript || textOf(styles[0]) != Styles()+pageStyle {
		t.Error("the template has changed the script or the style, so its hash is wrong")
	}
	hash := func(n *html.Node) string {
		sum := sha256.Sum256([]byte(textOf(n)))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	csp := ""
	for _, m := range metas {
		if attr(m, "http-equiv") == "Content-Security-Policy" {
			csp = attr(m, "content")
		}
	}
	want := "default-src 'none'; style-src " + hash(styles[0]) + "; script-src " + hash(scripts[0]) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
	if csp != want {
		t.Errorf("the policy is %q, want %q", csp, want)
	}
	if slices.Index(elements(doc, "*"), metas[1]) > slices.Index(elements(doc, "*"), scripts[0]) ||
		attr(metas[1], "http-equiv") == "" {
		t.Error("the policy is not before everything that it is for")
	}
	for _, n := range elements(doc, "*") {
		if slices.Contains([]string{"img", "iframe", "object", "embed", "base", "form", "input", "foreignobject", "use",
			"image",
			"a", "video", "audio"}, strings.ToLower(n.Data)) {
			t.Errorf("the page has <%s>", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src", a.Key == "srcset", a.Key == "action":
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "href" && a.Val != "data:,":
				t.Errorf("<%s> links to %q", n.Data, a.Val)
			}
		}
	}
	for _, s := range []string{"url(", "@import", "javascript:", "//# source"} {
		if strings.Contains(strings.ToLower(textOf(styles[0])+textOf(scripts[0])), s) {
			t.Errorf("the style or the script has %q", s)
		}
	}
	return doc
}

// checkFiles fails if a plot cannot be read as XML or as PNG, or the Markdown has anything outside of code.
func checkFiles(t *testing.T, r Report) {
	t.Helper()
	for _, d := range r.Plots {
		svg, err := Picture(d, "svg")
		if err != nil {
			t.Fatal(err)
		}
		for x := xml.NewDecoder(bytes.NewReader(svg)); ; {
			token, err := x.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s.svg is no XML: %v", d.Name, err)
			}
			if s, ok := token.(xml.StartElement); ok && !slices.Contains([]string{"svg", "title", "desc", "style", "path",
				"text",
				"circle"}, s.Name.Local) {
				t.Errorf("%s.svg has <%s>", d.Name, s.Name.Local)
			}
		}
		picture, err := Picture(d, "png")
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(picture))
		if err != nil || img.Bounds().Dx() != int(2*d.W) {
			t.Errorf("%s.png: %v", d.Name, err)
		}
		for name, text := range map[string][]byte{"svg": svg, "png": picture} {
			if !bytes.Contains(text[:min(512, len(text))], []byte(Mark)) {
				t.Errorf("%s.%s has no mark", d.Name, name)
			}
		}
	}
	bare := string(Markdown(r))
	bare = regexp.MustCompile("(?s)\n(`{3,}).*?\n`{3,}\n").ReplaceAllString(bare, "\n")
	bare = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(bare, "")
	for _, s := range []string{"<script", "<img", "](", "onerror", "@ann"} {
		if strings.Contains(strings.ReplaceAll(bare, "<details><summary>", ""), s) {
			t.Errorf("the Markdown has %q outside of code", s)
		}
	}
}

func TestPage(t *testing.T) {
	dir := state(t, nil)
	for name, r := range map[string]Report{"run": OfRun(gathered(t, dir)), "sweep": ofSweep(sweepDoc(t, dir))} {
		t.Run(name, func(t *testing.T) {
			checkPage(t, r)
			checkFiles(t, r)
			if len(r.Plots) != 2 {
				t.Errorf("%d plots", len(r.Plots))
			}
		})
	}
}

const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)></style></title>]]>--> " +
	"`![x](http://e.x/y) @ann \x1b[31m\u202e{{.}}|"

// poison appends the hostile text to every text of a JSON document, but to those that have a meaning for launch.
func poison(v any, key string) any {
	switch v := v.(type) {
	case string:
		if slices.Contains([]string{"time", "began", "event", "cost", "allow", "ending", "state", "kind", "bound",
			"text", "trial",
			"direction", "until"}, key) {
			return v
		}
		return v + hostile
	case []any:
		for i := range v {
			v[i] = poison(v[i], key)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = poison(e, k)
		}
		if key == "metrics" || key == "measured" {
			for k, e := range v {
				delete(v, k)
				v[k+hostile] = e
			}
		}
	}
	return v
}

func poisoned(t *testing.T, text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		bad, err := json.Marshal(poison(v, ""))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(bad, '\n'))
	}
	return out.Bytes()
}

// Whatever a log, a command, a setting or a name has in it, it is text on the page.
func TestHostileTexts(t *testing.T) {
	dir := state(t, func(path string, text []byte) []byte {
		switch filepath.Base(path) {
		case record.OutputFile:
			return append(text, "\n"+hostile+"\n"...)
		default:
			return poisoned(t, text)
		}
	})
	in := gathered(t, dir)
	// a failure, explained by lines of the output
	in.Explained, in.Life = []string{hostile, "its last lines:", hostile}, record.Life{}
	in.Diffs[1] = "+ " + hostile
	for i := range in.History.Events {
		e := &in.History.Events[i]
		if e.Kind == record.Stopped {
			e.Stop = &run.Stop{Why: hostile}
		}
		if a := e.Attempt; a != nil {
			a.Outcome.Ending, a.Outcome.Report.Fatal, a.Outcome.Report.OOM = run.OutOfMemory, true, true
			a.Outcome.Report.Cause = hostile
		}
	}
	d := sweepDoc(t, dir)
	d.Name, d.Rows[3].State, d.Rows[3].Why = hostile, string(sweep.Failed), hostile
	for name, r := range map[string]Report{"run": OfRun(in), "sweep": ofSweep(d)} {
		t.Run(name, func(t *testing.T) {
			doc := checkPage(t, r)
			checkFiles(t, r)
			seen := strings.Count(textOf(doc), "<script>alert(1)</script>")
			if seen < 20 {
				t.Errorf("the hostile text is only %d times on the page: was it poisoned?", seen)
			}
			if strings.ContainsAny(textOf(doc), "\x1b\u202e") {
				t.Error("control characters are on the page")
			}
			if name == "sweep" {
				return
			}
			for what, text := range map[string]any{"command": r.Command, "title": r.Title, "edits": r.Attempts[1].Edits,
				"evidence": r.Attempts[0].Evidence, "failure": r.Failure.Lines, "ladder": r.Ladders[0].Rungs[0].Name,
				"notes": r.Summary, "attempt": r.Attempts[0].Changes, "difference": r.Attempts[1].Diff} {
				if !strings.Contains(fmt.Sprint(text), "<script>") {
					t.Errorf("the %s has no hostile text: %q", what, text)
				}
			}
		})
	}
}

// Secrets and home folders do not leave the machine, wherever in the record they are.
func TestMasked(t *testing.T) {
	const token = "hf_abcdefghijklmnopqrstuv"
	dir := state(t, func(path string, text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("options/demo.yml"), []byte("/cluster/ann/x/"+token+"/demo.yml"))
	})
	in := gathered(t, dir)
	in.Explained = []string{"/home/bob/x.py: WANDB_API_KEY=sesame", "--token sesame at /cluster/ann/y"}
	for i := range in.History.Events {
		if e := &in.History.Events[i]; e.Attempt != nil {
			e.Attempt.Outcome.Ending, e.Attempt.Outcome.Cause = run.Failed, "password: sesame in /cluster/ann/z"
			e.Attempt.Outcome.Report = oom.Report{OOM: true, Fatal: true, Kind: oom.GPUContention,
				Cause:  oom.Holder{PID: 1, User: "carol"}.String(),
				HeldBy: []oom.Holder{{PID: 4711, Name: "python", User: "carol", Bytes: unit.GiB}}}
		}
		if e := &in.History.Events[i]; e.Run != nil {
			e.Run.Job.Command.Env = []string{"LAUNCH_TOKEN=sesame", "PYTHONPATH=/home/bob/lib"}
			e.Run.Job.Command.Args = append(e.Run.Job.Command.Args, "--password", "sesame", "--out=/cluster/ann/o")
		}
	}
	d := sweepDoc(t, dir)
	d.Dir = "/cluster/ann/project"
	d.Rows[0].Assignment = append(d.Rows[0].Assignment, sweep.Setting{Key: "api_key", Value: token})
	d.Command = append(d.Command, "--api-key=sesame")
	for name, r := range map[string]Report{"run": OfRun(in), "sweep": ofSweep(d)} {
		page, err := HTML(r)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{"page": page, "markdown": Markdown(r)}
		for _, p := range r.Plots {
			all[p.Name], _ = Picture(p, "svg")
		}
		for what, text := range all {
			for _, secret := range []string{"sesame", token, "/cluster/ann", "/home/bob", "ann/", "carol"} {
				if i := bytes.Index(text, []byte(secret)); i >= 0 {
					t.Errorf("%s, %s: %q is in %q", name, what, secret, text[max(0, i-60):min(len(text), i+60)])
				}
			}
		}
		if name == "run" && !bytes.Contains(page, []byte("python (pid 4711) with 1.00 GiB")) {
			t.Error("who held the card is not on the page")
		}
		if !bytes.Contains(page, []byte("~/")) || !bytes.Contains(page, []byte(record.Masked)) {
			t.Errorf("%s: nothing was masked", name)
		}
	}
}

// What is not known is called so, and no run is too poor for a page.
func TestUnknown(t *testing.T) {
	event := func(kind string, e record.Event) record.Event {
		e.Kind, e.Time, e.Version = kind, noon, 1
		return e
	}
	followed := &record.History{ID: "f", Events: []record.Event{
		event(record.Followed, record.Event{Args: []string{"sh", "train.sh"}}),
		event(record.Ended, record.Event{Outcome: &run.Outcome{Ending: run.Failed, Cause: "exit code 3",
			Took: time.Minute}})}}
	in := gathered(t, state(t, nil))
	demo := in.History.Events
	refused := &record.History{ID: "r", Events: []record.Event{demo[0], event(record.Stopped, record.Event{Stop: &run.Stop{
		Why: "it cannot fit", Code: run.CannotFit}})}}
	for name, tt := range map[string]struct {
		h    *record.History
		want []string
	}{
		"no plugin": {followed, []string{"no memory was recorded over time in attempt 1", "not measured",
			"exit code 3", "it ran as typed", "none was seen"}},
		"refused":      {refused, []string{"it cannot fit", "micro-batch 8 × accumulation 4", "largest peak"}},
		"cut off":      {&record.History{ID: "c", Events: demo[:2]}, []string{"cut off: launch was killed before it ended"}},
		"no events":    {&record.History{ID: "e"}, []string{"damaged"}},
		"a first half": {&record.History{ID: "h", Events: demo[:4]}, []string{"out of memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := OfRun(Input{History: tt.h, Now: noon})
			doc := checkPage(t, r)
			checkFiles(t, r)
			for _, s := range tt.want {
				if !strings.Contains(textOf(doc), s) {
					t.Errorf("the page lacks %q", s)
				}
			}
			for _, n := range elements(doc, "data") {
				if attr(n, "value") == "0" && strings.HasSuffix(attr(n, "data-at"), "bytes") {
					t.Errorf("an amount that is not known is 0: %s", attr(n, "data-at"))
				}
			}
		})
	}
	empty := ofSweep(ui.SweepDoc{Name: "x", Rows: []ui.SweepRow{}, Counts: map[string]int{}})
	checkPage(t, empty)
	if len(empty.Plots) != 0 || !strings.Contains(fmt.Sprint(empty.Notes), "no trial has both figures") {
		t.Errorf("a sweep without figures: %d plots, %q", len(empty.Plots), empty.Notes)
	}
}

// The largest run and the largest sweep that a page shows stay below 2 MB.
func TestLarge(t *testing.T) {
	in := gathered(t, state(t, nil))
	var last record.Event
	for _, e := range in.History.Events {
		if e.Attempt != nil {
			last = e
		}
	}
	long := strings.Repeat("a long line of text ", 100)
	var spans []observe.Span
	for i := range observe.CurveSpans {
		at := time.Duration(i) * time.Second
		spans = append(spans, observe.Span{From: at, To: at + time.Second, Most: unit.Bytes(i) * unit.MiB, MostAt: at,
			LeastAt: at, Phases: []int{i % 2}})
	}
	for i := range 100 {
		a := *last.Attempt
		a.Plan.Attempt = i + 4
		a.Outcome.Cause = long
		a.Outcome.Took = time.Hour
		e := last
		e.Attempt = &a
		in.History.Events = append(in.History.Events, e)
		in.Curves = append(in.Curves, &observe.Curve{Version: 1, Width: time.Second, Phases: []string{"training",
			"validation"},
			Spans: spans})
		in.Diffs = append(in.Diffs, strings.Repeat("+"+strings.Repeat("x", 60)+"\n", 100))
	}
	doc := checkPage(t, OfRun(in))
	for _, s := range []string{"Only the last 12 of 103 attempts are drawn", "43 more attempts are not in this report"} {
		if !strings.Contains(textOf(doc), s) {
			t.Errorf("the page does not have %q", s)
		}
	}
	d := sweepDoc(t, state(t, nil))
	for i := range 3000 {
		row := d.Rows[i%12]
		row.Trial = i + 13
		row.Assignment = append(slices.Clone(row.Assignment), sweep.Setting{Key: "lr", Value: fmt.Sprint(float64(i) / 1e5)},
			sweep.Setting{Key: "optimizer", Value: "AdamW"})
		d.Rows = append(d.Rows, row)
	}
	doc = checkPage(t, ofSweep(d))
	if !strings.Contains(textOf(doc), "Only the first 600 of 3012 trials are drawn") ||
		!strings.Contains(textOf(doc), "2012 more trials are not in this report") {
		t.Error("the page does not count what it leaves out")
	}
}

// Every shape of a plot lies on its canvas, whatever was measured.
func TestPlotsStayOnTheirCanvas(t *testing.T) {
	for i, tt := range []struct {
		took  time.Duration
		n     int
		room  unit.Bytes
		peak  unit.Bytes
		price unit.Bytes
	}{
		{time.Second, 1, unit.GiB, 0, 0}, {time.Hour, 40, 80 * unit.GiB, unit.MiB, unit.GiB}, {0, 3, 0, 0, 0},
		{time.Millisecond, 12, unit.KiB, unit.TiB, 5 * unit.TiB}, {30 * 24 * time.Hour, 2, unit.GiB, 1, math.MaxInt64 / 64},
	} {
		var all []tried
		var curves []*observe.Curve
		for k := range tt.n {
			a := run.Attempt{Plan: run.Plan{Attempt: k + 1, Room: tt.room, Choices: []run.Choice{{Phase: "training"}}},
				Outcome: run.Outcome{Took: tt.took * time.Duration(k*k), Peak: tt.peak, Ending: run.OutOfMemory}}
			if tt.price > 0 {
				a.Plan.Choices[0].Estimate = mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "x", Bytes: tt.price},
					{Kind: mem.Correction, What: "x", Bytes: -tt.price / 3}}}
				a.Outcome.Measured = map[string][]mem.Measurement{"training": {{Is: "used", Bytes: tt.peak}}}
			}
			all = append(all, tried{a, "plan", "outcome"})
			curves = append(curves, nil)
			if k%2 == 0 {
				curves[k] = &observe.Curve{Width: time.Second, Phases: []string{"training", "a phase with a rather long name"},
					Spans: []observe.Span{{From: tt.took, To: 2 * tt.took, Most: tt.peak, MostAt: tt.took, LeastAt: 2 * tt.took,
						Phases: []int{0, 1}}}}
			}
		}
		drawings := []Drawing{memoryPlot(curves, all, false)}
		if d, ok := breakdownPlot(all); ok {
			drawings = append(drawings, d)
		}
		drawings = append(drawings, sweepDrawings(tt.n, tt.peak, float64(tt.room))...)
		for _, d := range drawings {
			for _, s := range d.Shapes {
				for _, p := range s.Points {
					if !(p.X >= -1 && p.X <= d.W+1 && p.Y >= -1 && p.Y <= d.H+1) {
						t.Fatalf("case %d, %s: a point lies at %v, outside of %v × %v: %+v", i, d.Name, p, d.W, d.H, s)
					}
				}
			}
		}
	}
}

// An axis whose values differ has two ends that differ, however near they are.
func TestAxisEndsDiffer(t *testing.T) {
	for _, v := range [][2]float64{{28.8266, 28.8315}, {1, 2}, {1, 1 + 1e-12}, {0.001, 0.1}} {
		d := ui.SweepDoc{Rows: make([]ui.SweepRow, 2)}
		for i := range d.Rows {
			d.Rows[i].Rate = &v[i]
			bytes := unit.Bytes(3<<30 + i)
			d.Rows[i].Peak = &bytes
		}
		rates, ok := numberAxis(d, "rate", digits, rateOf)
		peaks, known := numberAxis(d, "peak", amounts, peakOf)
		if !ok || !known || rates.low == rates.high || peaks.low == peaks.high || !strings.HasSuffix(peaks.low, "iB") {
			t.Errorf("%v: from %s to %s, and from %s to %s", v, rates.low, rates.high, peaks.low, peaks.high)
		}
	}
}

// Texts of an axis that are cut stay different.
func TestTicksDiffer(t *testing.T) {
	got := cutTicks([]tick{{0, "configs/experiments/small.yml"}, {1, "configs/experiments/large.yml"}}, 100)
	if want := []string{"…nts/small.yml", "…nts/large.yml"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := cutTicks([]tick{{0, "small networks of all"}, {1, "large networks of all"}}, 100); got[0] == got[1] ||
		!strings.HasPrefix(got[0], "small") {
		t.Errorf("%q", got)
	}
}

// The bars of a report have the groups of a plan, by its names.
func TestBreakdownNamesGroups(t *testing.T) {
	a := run.Attempt{Plan: run.Plan{Choices: []run.Choice{{Phase: "training", Estimate: mem.Estimate{Items: []mem.Item{
		{Kind: mem.Parameters, Bytes: unit.GiB}, {Kind: mem.Optimizer, Bytes: unit.GiB}, {Kind: mem.Saved, Bytes: unit.GiB},
		{Kind: mem.Context, Bytes: unit.GiB}}}}}}}
	d, ok := breakdownPlot([]tried{{a, "plan", "outcome"}})
	var texts []string
	for _, s := range d.Shapes {
		texts = append(texts, s.Text)
	}
	for i, name := range ui.GroupNames() {
		if want := i == 0 || i == 1 || i == 4; !ok || slices.Contains(texts, name) != want {
			t.Errorf("%s: want it %v in %q", name, want, texts)
		}
	}
	if len(ui.GroupNames()) != len(groupColours) {
		t.Errorf("%d groups have %d colours", len(ui.GroupNames()), len(groupColours))
	}
}

// sweepDrawings are the plots of a sweep of n trials.
func sweepDrawings(n int, peak unit.Bytes, rate float64) (out []Drawing) {
	d := ui.SweepDoc{}
	for i := range n {
		p, r := peak/unit.Bytes(i+1), rate*float64(i)
		row := ui.SweepRow{Trial: i + 1, State: string(sweep.Succeeded), Rate: &r, Assignment: sweep.Assignment{
			{Key: "a", Value: fmt.Sprint(i)}, {Key: "b", Value: []string{"x", "y", "zzzzzzzzzzzzzzzzzzzzzzzzz"}[i%3]},
			{Key: "c", Value: fmt.Sprint(math.Pow(10, float64(i)))}, {Key: "d", Value: "NaN"}}}
		if i%4 != 3 {
			row.Peak = &p
		} else {
			row.State = string(sweep.Failed)
		}
		row.Metrics = metric.Set{"m": {Name: "m", Best: &metric.Point{Value: -float64(i)}}}
		d.Rows = append(d.Rows, row)
	}
	if p, ok := parallelPlot(d); ok {
		out = append(out, p)
	}
	if p, ok := speedPlot(d); ok {
		out = append(out, p)
	}
	return out
}

// The attempts of a page are those of the record, however its launch ended, and each has a folder.
func TestAttemptsAreTheRecords(t *testing.T) {
	in := gathered(t, state(t, nil))
	all := in.History.Events
	for n := range len(all) + 1 {
		for again := range n {
			h := &record.History{ID: "x", Dir: "/x", Events: append(slices.Clone(all[:n]), all[again:n]...)}
			want, got := h.Tried(), attempts(h)
			if len(want) != len(got) {
				t.Fatalf("events ..%d and %d..: %d attempts, want %d", n, again, len(got), len(want))
			}
			for i := range want {
				if want[i].Plan.Attempt != got[i].Plan.Attempt || want[i].Outcome.Ending != got[i].Outcome.Ending ||
					(got[i].outcome == "") != (want[i].Outcome.Ending == "") {
					t.Errorf("events ..%d and %d..: attempt %d differs", n, again, i)
				}
			}
			if dirs := h.AttemptDirs(); len(want) > 0 && (len(dirs) != len(want) || len(slices.Compact(slices.Sorted(
				slices.Values(dirs)))) != len(dirs)) {
				t.Errorf("events ..%d and %d..: the folders %q of %d attempts", n, again, dirs, len(want))
			}
		}
	}
}
