// Package wire carries JSON documents between launch and a plugin's process.
//
// The service is a handful of unary gRPC methods, and each message is one JSON document in a
// google.protobuf.BytesValue: the documents are the same that `launch plan --json` prints, they are versioned as a
// whole by the handshake, and a field that one side does not know is ignored. So a plugin in another language needs
// gRPC and JSON and no generated code, and the values have one description, their Go types. CONTRIBUTING.md has
// why encoding/json reads them.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/launch-ml/launch/core/file"
)

// Version of the protocol. It changes when a document changes in a way that an older reader would misread; new
// fields, new kinds of signs and new methods do not change it. Both sides name the versions that they speak, and use
// the newest common one.
const Version = 1

const (
	name    = "launch" // under which go-plugin dispenses the one service
	service = "launch.v1.Plugin"
)

// maxMessage and maxObjects bound a document: a job with its recipe and a priced ladder is under 1 MiB and has a
// thousand objects. Without the second a document of nothing but {} would come to a hundred times its size in memory.
const (
	maxMessage = 16 << 20
	maxObjects = 200_000
)

// handshake keeps a user who starts a plugin by hand from waiting for ever. It is no secret, and it stays the same in
// all versions of the protocol: with another cookie a plugin would take launch for a user.
var handshake = goplugin.HandshakeConfig{
	MagicCookieKey:   "LAUNCH_PLUGIN",
	MagicCookieValue: "launch-plugin-v1",
}

// spoken are the versions of the protocol that this program speaks, each with its service.
func spoken(methods map[string]Method) map[int]goplugin.PluginSet {
	return map[int]goplugin.PluginSet{Version: {name: &carrier{methods: methods}}}
}

// OtherVersion returns an error if a plugin's handshake, its first line on standard output, names a version of the
// protocol that this program does not speak. The error names the older side, which is to be renewed.
func OtherVersion(line string) error {
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 4 || fields[0] != strconv.Itoa(goplugin.CoreProtocolVersion) {
		return nil
	}
	version, err := strconv.Atoi(fields[1])
	switch {
	case err != nil || version == Version:
		return nil
	case version > Version:
		return fmt.Errorf("it speaks version %d of the plugin protocol and this launch speaks version %d: launch is older, "+
			"so update launch", version, Version)
	}
	return fmt.Errorf("it speaks version %d of the plugin protocol and this launch speaks version %d: "+
		"the plugin is older, so build it again with a newer SDK", version, Version)
}

// Cookie is the environment entry that tells a plugin that launch started it.
func Cookie() string { return handshake.MagicCookieKey + "=" + handshake.MagicCookieValue }

// announced is the environment's variable in which a plugin's process finds what it will be asked first.
const announced = "LAUNCH_PLUGIN_ASKED"

// maxAnnounced is half of an environment's longest entry (MAX_ARG_STRLEN), which is also what a process may always be
// started with in all, however small its stack: the question holds the environment once more.
const maxAnnounced = 64 << 10

// Announce returns the environment entries that tell a plugin's process what its first question will be, so that it
// can begin before the connection stands. There are none where that is too long.
func Announce(question any) []string {
	b, err := json.Marshal(question)
	if err != nil || len(b) > maxAnnounced {
		return nil
	}
	return []string{announced + "=" + string(b)}
}

// Announced reads what was announced to this process, and takes it out of the environment. ok is false where nothing
// was.
func Announced(question any) (ok bool) {
	doc := os.Getenv(announced)
	_ = os.Unsetenv(announced)
	return doc != "" && read([]byte(doc), question) == nil
}

// ErrDeclined is returned by a method that has nothing to say to what it was asked.
var ErrDeclined = errors.New("declined")

// maxAnswer bounds the words of an [Answer], which a person reads.
const maxAnswer = 4096

// An Answer is an error that the plugin gave as its answer: it is about what was asked, not about the plugin.
type Answer struct{ Text string }

func (a *Answer) Error() string { return a.Text }

// A Method takes a JSON document and returns the value whose JSON is the answer.
type Method func(ctx context.Context, in []byte) (any, error)

// Asked is the method that reads its document into a value first.
func Asked[Q any](answer func(ctx context.Context, q Q) (any, error)) Method {
	return func(ctx context.Context, in []byte) (any, error) {
		var q Q
		if err := read(in, &q); err != nil {
			return nil, fmt.Errorf("reading the question: %w", err)
		}
		return answer(ctx, q)
	}
}

// read reads a document.
func read(doc []byte, into any) error {
	if n := bytes.Count(doc, []byte("{")) + bytes.Count(doc, []byte(","))/8; n > maxObjects {
		return fmt.Errorf("it has more than %d values", maxObjects)
	}
	return json.Unmarshal(doc, into)
}

// Serve serves the methods until launch ends the process. It does not return when started by launch; started by
// hand it says what it is on standard error and exits with 1.
func Serve(methods map[string]Method) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: spoken(methods),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Error, JSONFormat: true}),
	})
}

// ClientConfig returns what both sides must agree on, for launch's side to complete.
func ClientConfig() *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: spoken(nil),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage))},
	}
}

// Dispense returns the caller for a connected plugin.
func Dispense(p goplugin.ClientProtocol) (*Caller, error) {
	raw, err := p.Dispense(name)
	if err != nil {
		return nil, err
	}
	return raw.(*Caller), nil
}

// A Caller calls the methods of a plugin's process.
type Caller struct{ cc *grpc.ClientConn }

// Call sends in as JSON and reads the answer into out. The error wraps [ErrDeclined] if the method returned that.
func (c *Caller) Call(ctx context.Context, method string, in, out any) error {
	return c.CallThen(ctx, method, in, out, func() {})
}

// ErrFailed is wrapped by the error of a call in which the plugin's own code failed: in Python, an exception that
// nobody caught.
var ErrFailed = errors.New("it failed")

// ErrMalformed is wrapped by the error of a call whose answer cannot be read.
var ErrMalformed = errors.New("the plugin's answer is not what was agreed")

// ErrEnded is wrapped by the error of a call in which the connection to the plugin was lost.
var ErrEnded = errors.New("the plugin's process ended while it was asked")

// late is a [context.DeadlineExceeded] in words for the plugin's user.
type late struct{}

func (late) Error() string { return "it did not answer in time" }
func (late) Unwrap() error { return context.DeadlineExceeded }

// CallThen is Call, which calls then as soon as the answer is there and before it is read.
func (c *Caller) CallThen(ctx context.Context, method string, in, out any, then func()) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing the question to the plugin: %w", err)
	}
	var answer wrapperspb.BytesValue
	if err := c.cc.Invoke(ctx, "/"+service+"/"+method, wrapperspb.Bytes(b), &answer); err != nil {
		switch s := status.Convert(err); s.Code() {
		case codes.FailedPrecondition:
			return fmt.Errorf("%w: %s", ErrDeclined, s.Message())
		case codes.InvalidArgument:
			return &Answer{strings.ToValidUTF8(s.Message()[:min(len(s.Message()), maxAnswer)], "")}
		case codes.OutOfRange: // a text that it cannot read
			return errors.New(strings.ToValidUTF8(s.Message()[:min(len(s.Message()), maxAnswer)], ""))
		case codes.Unimplemented:
			return fmt.Errorf("the plugin has no method %s: it was built for another version of launch", method)
		case codes.DeadlineExceeded:
			return late{}
		case codes.ResourceExhausted:
			return fmt.Errorf("%w: %s: it has more than %d MiB", ErrMalformed, method, maxMessage>>20)
		case codes.Unavailable:
			return ErrEnded
		default:
			return fmt.Errorf("%w: %s", ErrFailed, strings.TrimSpace(s.Message()))
		}
	}
	then()
	if err := read(answer.GetValue(), out); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, method, err)
	}
	return nil
}

// carrier is go-plugin's view of the service: served on the plugin's side, called on launch's.
type carrier struct {
	goplugin.NetRPCUnsupportedPlugin
	methods map[string]Method
}

func (c *carrier) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	desc := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for name, m := range c.methods {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: handler(m)})
	}
	s.RegisterService(&desc, struct{}{})
	return nil
}

func (*carrier) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return &Caller{cc}, nil
}

func handler(m Method) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in wrapperspb.BytesValue
		if err := decode(&in); err != nil {
			return nil, err
		}
		out, err := m(ctx, in.GetValue())
		switch {
		case errors.Is(err, ErrDeclined):
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // the plugin gave up, as it should: that is no answer
			return nil, status.Error(codes.DeadlineExceeded, err.Error())
		case errors.As(err, new(*file.Unread)):
			return nil, status.Error(codes.OutOfRange, err.Error())
		case err != nil:
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		b, err := json.Marshal(out)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		return wrapperspb.Bytes(b), nil
	}
}
