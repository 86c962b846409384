package notice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A message is the body for a webhook: the notice, and its text under the names that chats read. Slack and Mattermost
// read text, Discord reads content.
type message struct {
	Notice
	Text    string `json:"text"`
	Content string `json:"content"`
	// Discord notifies nobody whose name is in the text.
	Mentions struct {
		Parse []string `json:"parse"`
	} `json:"allowed_mentions"`
}

// escapes are the three characters that mean something in a text for Slack, where <!channel> would notify everybody,
// and on a desktop, which may read links and images in it.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func body(p Place, n Notice) (text []byte, kind string, err error) {
	if p.plain {
		return []byte(n.text() + "\n"), "text/plain; charset=utf-8", nil
	}
	m := message{Notice: n, Text: escapes.Replace(n.text()), Content: n.text()}
	m.Mentions.Parse = []string{}
	text, err = json.Marshal(m)
	return text, "application/json", err
}

// post sends a notice to a webhook. It tries a second time if the server cannot be reached, or has trouble of its own.
// A try has half of the time at most, so that there is a second one with a server that does not answer.
func (s Sender) post(ctx context.Context, p Place, n Notice) error {
	text, kind, err := body(p, n)
	if err != nil {
		return err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the address that the user gave receives the notice, or none
	}}
	defer client.CloseIdleConnections()
	again := true
	for {
		again, err = try(ctx, s.Limit/2, client, p.url, text, kind, n.title(), again)
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(time.Second, s.Limit/10)):
		}
		again = false
	}
}

// try makes one request. again reports whether another one may succeed, if more is set.
func try(ctx context.Context, limit time.Duration, client *http.Client, to *url.URL, text []byte, kind, title string,
	more bool) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(text))
	if err != nil {
		return false, errors.New("its address cannot be used")
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "launch")
	if kind != "application/json" {
		req.Header.Set("Title", title) // of ntfy
	}
	resp, err := client.Do(req)
	if err != nil {
		var of *url.Error // its text has the address
		if errors.As(err, &of) {
			err = of.Err
		}
		return more, hidden(err, to)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be closed in order
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return false, nil
	case code >= 300 && code < 400:
		return false, fmt.Errorf("it answers with another address (HTTP %d), which launch does not follow", code)
	default:
		return more && (code >= 500 || code == http.StatusTooManyRequests), fmt.Errorf("it answers with HTTP %d", code)
	}
}

// hidden takes the address out of an error.
func hidden(err error, to *url.URL) error {
	text := err.Error()
	for _, secret := range []string{to.String(), to.RequestURI(), to.Path} {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return errors.New(oneLine(text))
}
