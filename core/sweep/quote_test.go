package sweep

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

func TestReadQuote(t *testing.T) {
	q, err := ReadQuote(2, []byte(`{"version":1,"plugin":"sisr","device":{"Name":"A"},"room_bytes":100,"verdict":"fits",
 "steps":7,
 "exclusive":"/x","cost":"speed","global_batch":{"asked":8,"planned":8},"phases":[
 {"phase":"training","rung":"half","asked":{"total_bytes":120},"planned":{"total_bytes":60},"slowdown":1.5},
 {"phase":"validation","rung":"as asked","asked":{"total_bytes":80},"planned":{"total_bytes":80}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if q.Needs != 80 || q.Rung != "as asked" || q.Asked != 120 || q.Slow != 1.5 || q.Room != 100 || q.Steps != 7 ||
		q.Global != 8 ||
		q.Cost != ladder.Speed || q.Exclusive != "/x" || q.Trial != 2 {
		t.Errorf("%+v", q)
	}
	q, err = ReadQuote(1, []byte(`{"version":1,"plugin":"p","phases":[{"planned":{"total_bytes":60}},
 {"planned":{"total_bytes":null}}]}`))
	if err != nil || q.Needs != 0 {
		t.Errorf("what a phase needs is not known, and the job needs %v: %v", q.Needs, err)
	}
	const cpu = `{"version":1,"plugin":"p","device":{"kind":"cpu"},"host":[{"planned":{"total_bytes":10}}],"phases":[
 {"planned":{"total_bytes":60}},{"planned":{"total_bytes":`
	for total, want := range map[string]unit.Bytes{"50}}]}": 70, "null}}]}": 0} {
		if q, err = ReadQuote(1, []byte(cpu+total)); err != nil || q.Memory != want {
			t.Errorf("%s: on a CPU the job needs %v of host memory, want %v: %v", total, q.Memory, want, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"version":2}`} {
		if _, err := ReadQuote(1, []byte(bad)); err == nil {
			t.Errorf("%q is taken for a plan", bad)
		}
	}
}

func TestConflicts(t *testing.T) {
	quote := func(folders ...string) (qs []Quote) {
		for i, f := range folders {
			qs = append(qs, Quote{Trial: i + 1, Exclusive: f})
		}
		return qs
	}
	if err := Conflicts(quote("/a", "/b", "", "")); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		folders []string
		says    string
	}{
		{[]string{"/a", "/b", "/a"}, "trials 1 and 3 would write into the same folder, /a:"},
		{[]string{"/a", "/a", "/a", "/a", "/a", "/a"}, "trials 1, 2, 3, 4, 5 and 6 would"},
		{[]string{"/a", "/a", "/a", "/a", "/a", "/a", "/a"}, "trials 1, 2, 3, 4, 5 and 2 more would"},
	} {
		if err := Conflicts(quote(tt.folders...)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %s", err, tt.says)
		}
	}
}

// rows that need 10, 20 and 40 at a micro-batch of 8, in a room of 15: the third fits at a quarter.
func TestSamePlan(t *testing.T) {
	needs, room, global := []unit.Bytes{10, 20, 40}, unit.Bytes(15), []int64{8, 8, 8}
	priced := 0
	price := func(shared Assignment) (qs []Quote, err error) {
		priced++
		for i, n := range needs {
			q := Quote{Trial: i + 1, Plugin: "p", Verdict: "fits", Needs: n, Global: global[i]}
			if micro, ok := shared.Get("micro"); ok {
				q.Needs = n * unit.Bytes(micro[0]-'0') / 8
				q.Global = 8
			}
			for micro := 4; q.Needs > room && micro > 0; micro /= 2 {
				if n*unit.Bytes(micro)/8 <= room {
					q.Needs, q.Cost, q.Slow = n*unit.Bytes(micro)/8, ladder.Speed, 8/float64(micro)
					q.Edits = []config.Edit{{Knob: "micro-batch", At: config.Address{Doc: "x.yml", Path: "micro"},
						To:   string(rune('0' + micro)),
						Cost: "speed"}}
				}
			}
			if q.Needs > room {
				q.Verdict, q.Stop = "cannot fit", "too large"
			}
			qs = append(qs, q)
		}
		return qs, nil
	}
	same := func() (string, error) {
		quotes, _ := price(nil)
		shared, cost, err := SamePlan(quotes, price)
		return shared.String() + " " + cost.String(), err
	}
	if got, err := same(); err != nil || got != "micro=2 speed" {
		t.Errorf("%s, %v", got, err)
	}
	needs = []unit.Bytes{10, 12, 14}
	if got, err := same(); err != nil || got != " none" {
		t.Errorf("what fits as asked is changed: %s, %v", got, err)
	}
	needs = []unit.Bytes{10, 20, 200}
	if got, err := same(); err == nil || !strings.Contains(err.Error(), "no plan of a single row fits all") {
		t.Errorf("%s, %v", got, err)
	}
	needs, global = []unit.Bytes{10, 20, 40}, []int64{4, 8, 8}
	if got, err := same(); err == nil {
		t.Errorf("the plan changes the global batch of a row: %s", got)
	}
	for _, q := range []Quote{{Plugin: "p", Verdict: "unknown"}, {Plugin: "p", Verdict: "fits"},
		{Plugin: "p", Verdict: "unknown", Needs: 1}} {
		if _, _, err := SamePlan([]Quote{q}, price); err == nil || !strings.Contains(err.Error(), "needs is not known") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []Quote{{}, {Plugin: "p", Verdict: "unknown"}, {Plugin: "p", Verdict: "fits", Needs: 1,
		Edits: []config.Edit{{At: config.Address{Path: "--x"}, Remove: true}}}} {
		if _, _, err := SamePlan([]Quote{q}, price); err == nil {
			t.Errorf("no error for %+v", q)
		}
	}
}
