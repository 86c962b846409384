package arch

import "testing"

// A name is priced as its own project's class, as traiNNer-redux's where the two are the same, or not at all.
func TestCatalog(t *testing.T) {
	var c catalog[string]
	c.add(Redux, "redux's", "span", "esrgan", "compact")
	c.add(Neosr, "neosr's", "span", "ninasr")
	c.share(Neosr, "esrgan")
	for _, row := range []struct {
		p          Project
		name, want string
	}{
		{Redux, "span", "redux's"}, {Redux, "SPAN", "redux's"}, {Redux, "ninasr", ""},
		{Neosr, "Span", "neosr's"}, {Neosr, "ninasr", "neosr's"}, {Neosr, "esrgan", "redux's"}, {Neosr, "compact", ""},
	} {
		if got, ok := c.find(row.p, row.name); got != row.want || ok != (row.want != "") {
			t.Errorf("%v's %s is %q, %v; want %q", row.p, row.name, got, ok, row.want)
		}
	}
	if got := len(c.names(Neosr)); got != 3 {
		t.Errorf("neosr has %d names, want 3", got)
	}
}
