package nodes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A message is what one launch sends to another; one field is set.
type message struct {
	Hello   *Hello       `json:"hello,omitempty"`
	Refused string       `json:"refused,omitempty"` // why a node cannot take part
	AskRoom bool         `json:"ask_room,omitempty"`
	Room    *rooms       `json:"room,omitempty"`
	Plan    *run.Plan    `json:"plan,omitempty"`
	End     bool         `json:"end,omitempty"` // the attempt, because of another node
	Outcome *run.Outcome `json:"outcome,omitempty"`
	Ended   bool         `json:"ended,omitempty"` // with Outcome: because of another node
	Merged  *run.Outcome `json:"merged,omitempty"`
	Stop    *run.Stop    `json:"stop,omitempty"`
	Error   string       `json:"error,omitempty"` // launch could not carry out the plan
}

type rooms struct {
	Room unit.Bytes       `json:"room_bytes"`
	Host ladder.HostRooms `json:"host"`
}

// A Hello is what a node tells of itself. Version and Job have to be those of node 0.
type Hello struct {
	Node    int    `json:"node"`
	Nodes   int    `json:"nodes"`
	Version string `json:"version"`
	// Job has what has to be the same on all nodes, by name, as digests.
	Job map[string]string `json:"job"`
	// Same is the node's code, packages and environment, by name, as digests. They have to be the same too, unless one of
	// the two accepts that they are not.
	Same   map[string]string `json:"same,omitempty"`
	Accept bool              `json:"accept,omitempty"`
}

const keyFile = "nodes.key"

// Key reads the key that the launches of a user share, from the state folder. The first launch makes it.
func Key(state string) ([]byte, error) {
	path := filepath.Join(state, keyFile)
	key, err := private.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			key, err = private.ReadFile(path)
		}
	}
	if err == nil && len(key) < 32 {
		err = errors.New("it is too short")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of the nodes, %s: %w", path, err)
	}
	return key, nil
}

// makeKey makes a file of its own first: two nodes that share the folder may both be the first.
func makeKey(path string) error {
	if err := private.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%x", path, rand.Text())
	if err := private.WriteFile(fresh, []byte(rand.Text()+rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(fresh)
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// settings are the TLS of both sides: a key pair made of the shared key stands for it, and only that is taken from
// the other.
func settings(key []byte) (*tls.Config, error) {
	seed := sha256.Sum256(append([]byte("launch nodes 1\x00"), key...))
	pair := ed25519.NewKeyFromSeed(seed[:])
	public := pair.Public().(ed25519.PublicKey)
	c := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, public, pair)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection of the nodes: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: pair}},
		MinVersion:   tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // no authority has signed it; the next line compares the key itself
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 1 {
				if theirs, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ok && bytes.Equal(theirs, public) {
					return nil
				}
			}
			return ErrKey
		},
	}, nil
}

// ErrKey is why two launches do not talk: they do not share a key.
var ErrKey = errors.New("the other launch has another " + keyFile)

// alive finds a machine that has gone within 20 s.
var alive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

// A peer is the other end of a connection.
type peer struct {
	unlike []string // what is not as on node 0, by name
	node   int
	conn   net.Conn
	in     chan message // closed at the end of the connection
	err    error        // why it ended; read once in is closed
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, in: make(chan message, 16)}
	go func() {
		defer close(p.in)
		for d := json.NewDecoder(conn); ; {
			var m message
			if p.err = d.Decode(&m); p.err != nil {
				return
			}
			p.in <- m
		}
	}()
	return p
}

// send writes a message. That the other side is gone shows when it is read.
func (p *peer) send(m message) {
	p.conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if json.NewEncoder(p.conn).Encode(m) != nil {
		p.conn.Close()
	}
}

// receive returns the next message; nil at the end of the connection.
func (p *peer) receive(ctx context.Context) (*message, error) {
	select {
	case m, ok := <-p.in:
		if !ok {
			return nil, nil
		}
		return &m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
