package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"sync"
)

// Mark is in the first bytes of each text file that this package makes. A program that is about to write a report there
// knows by it that it may.
const Mark = "made by launch report"

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

// page is parsed when it is first used: most runs of launch write no page.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(Template(template.Must(template.New("report").Parse(pageSource))))
})

// policy is the content security policy of a page: nothing is loaded, and no other style and script count than its own.
func policy(style, script string) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; img-src data:; base-uri 'none'; "+
		"form-action 'none'", hash(style), hash(script))
}

// HTML returns the report as a page that needs no other file. html/template escapes whatever comes from the record.
func HTML(r Report) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("<!doctype html>\n<!-- " + Mark + " -->\n")
	style := Styles() + pageStyle
	err := page().ExecuteTemplate(&b, "page", struct {
		Report
		CSP string
		CSS template.CSS
		JS  template.JS
	}{r, policy(style, pageScript), template.CSS(style), template.JS(pageScript)})
	if err != nil {
		return nil, fmt.Errorf("writing the report: %w", err)
	}
	return b.Bytes(), nil
}

// Picture returns a plot as a file: "svg" or "png", with the mark.
func Picture(d Drawing, format string) ([]byte, error) {
	if format == "png" {
		return PNG(d, Mark)
	}
	text, err := SVG(d)
	return append([]byte("<!-- "+Mark+" -->\n"), text...), err
}
