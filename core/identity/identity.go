// Package identity tells what makes a run the same run: the code that it executes, its recipes, arguments and
// environment, its Python and packages, its data, and its ranks. An identity is taken before an attempt, kept in the
// run's record, and compared by whatever goes on with the run.
//
// It reads files and starts nothing. What it cannot read is listed as unknown, and is then not compared.
package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/python"
)

// An Identity is what decides the result of a run.
type Identity struct {
	// Salt is the key of the hashes of secrets. It is the run's own.
	Salt string `json:"salt,omitempty"`
	// Code are the project's files that the command runs or can import, sorted by path.
	Code []File `json:"code,omitempty"`
	// Commit is that of the work tree in which the script lies; "" without one. It is shown and not compared: two commits
	// whose files are the same are one experiment.
	Commit string `json:"commit,omitempty"`
	// Recipes are the files of settings that the arguments or other recipes name, sorted by path.
	Recipes []File `json:"recipes,omitempty"`
	// Args is the command. A secret in it is replaced by a hash with the salt.
	Args []string `json:"args,omitempty"`
	// Env are the variables that change numbers and those that the project's files read, sorted, "NAME=value".
	Env []string `json:"env,omitempty"`
	// Reads are the names of the variables that the project's files read.
	Reads    []string `json:"reads,omitempty"`
	Python   string   `json:"python,omitempty"`   // the path of the interpreter
	Release  string   `json:"release,omitempty"`  // its version: "3.11"
	Packages []string `json:"packages,omitempty"` // "torch 2.1.0"
	Data     []Tree   `json:"data,omitempty"`
	Ranks    int64    `json:"ranks,omitempty"` // 0: unknown
	// Unknown lists what could not be read, and is not compared.
	Unknown []string `json:"unknown,omitempty"`

	py      python.Environment
	imports map[string]bool // the first parts of the names that the code imports
	home    string          // the folder of the script
	parts   []part          // the code
}

// A File is a file and a hash of its content; the hash is "" if the file is not there.
type File struct {
	Path string `json:"path"` // relative to the command's folder where it lies below that, else absolute
	Hash string `json:"hash"`
	// Sought says that no import names the file: it lies below a file that imports by a computed name.
	Sought bool `json:"sought,omitempty"`

	written int64 // its time, in Unix nanoseconds; 0: unknown
}

// A Subject is what an identity is taken of.
type Subject struct {
	Command job.Command
	Job     *job.Job // nil if no plugin recognised the command
	// Mask replaces secrets in arguments, and in NAME=value.
	Mask func([]string) []string
	// Masked is what it puts in their place.
	Masked string
	// Cache is the file that keeps what was read of the code; "" for none.
	Cache string
	// Apart are folders that are no data: launch's own.
	Apart []string
	// Devices is how many cards the command sees; 0: unknown.
	Devices int
	// Deadline is when to stop listing data; zero: never. Data that were not listed by then are unknown.
	Deadline time.Time
}

// Take takes the identity of a command as it is now. salt is that of the identity that it will be compared with; "" for
// a new one.
func Take(s Subject, salt string) *Identity {
	if salt == "" {
		var key [16]byte
		rand.Read(key[:])
		salt = hex.EncodeToString(key[:])
	}
	id := &Identity{Salt: salt, Args: s.hashed(s.Command.Args, salt)}
	prog, err := s.Command.Prog()
	if err != nil {
		id.Unknown = append(id.Unknown, "python")
		id.readScripts(s)
		id.readRecipes(s, nil)
		id.readData(s)
		return id
	}
	env := prog.Environ(s.Command.Env)
	py := python.Of(prog, s.Command.Env)
	id.py, id.imports = py, map[string]bool{}
	id.Python, id.Release, id.Packages = py.Interpreter, py.Release(), py.Packages()
	if !py.Known() {
		id.Unknown = append(id.Unknown, "packages")
	}
	id.readRecipes(s, &prog)
	names := id.readCode(s, prog, py)
	id.readEnv(s, env, names)
	id.readData(s)
	id.Ranks = ranks(s, prog, env)
	return id
}

// OfCode is a short hash of the code: it is the same for the same files.
func (id *Identity) OfCode() string {
	var b strings.Builder
	for _, f := range id.Code {
		b.WriteString(f.Path + " " + f.Hash + "\n")
	}
	return digest([]byte(b.String()))[:12]
}

// OfPackages is a short hash of the installed packages and their versions.
func (id *Identity) OfPackages() string { return digest([]byte(strings.Join(id.Packages, "\n")))[:12] }

// Paths are the files of the code, and the folder of the script, which lies in the commit's work tree. home is "" for
// an identity that was read from a record.
func (id *Identity) Paths(s Subject) (home string, files []string) {
	for _, f := range id.Code {
		files = append(files, s.absolute(f.Path))
	}
	return id.home, files
}

// Salted returns the identity with the hashes of secrets by another salt.
func (id *Identity) Salted(s Subject, salt string) *Identity {
	out := *id
	out.Salt, out.Args, out.Env = salt, s.hashed(s.Command.Args, salt), nil
	env := s.Command.Env
	if prog, err := s.Command.Prog(); err == nil {
		env = prog.Environ(env)
	}
	out.readEnv(s, env, slices.Clone(id.Reads))
	return &out
}

// hashed returns arguments with a hash in place of each secret.
func (s Subject) hashed(args []string, salt string) []string {
	if s.Mask == nil {
		return slices.Clone(args)
	}
	masked := s.Mask(args)
	for i := range masked {
		if i < len(args) && masked[i] != args[i] {
			masked[i] = strings.ReplaceAll(masked[i], s.Masked, "hidden:"+secret(args[i], salt))
		}
	}
	return masked
}

// secret is a hash of a secret, which only who knows the secret can make.
func secret(text, salt string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// digest is a hash of a text, of 16 bytes.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// shown is how a path is kept: relative to the command's folder where it lies below that.
func (s Subject) shown(path string) string {
	if rel, err := filepath.Rel(s.Command.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// absolute resolves a path that the command names.
func (s Subject) absolute(path string) string {
	return filepath.Clean(file.In(s.Command.Dir, path))
}

// ranks is the number of processes that share an optimizer step, as the command and the environment have it now.
func ranks(s Subject, prog command.Prog, env []string) int64 {
	n, launched := int64(1), false
	for _, l := range prog.Launchers {
		each, asks := l.Ranks(s.Devices)
		if asks && s.Devices == 0 {
			return 0
		}
		n, launched = n*int64(max(1, each)), true
	}
	if launched {
		return n
	}
	if n = number(env, "WORLD_SIZE"); n > 0 {
		return n
	}
	if s.Job == nil {
		return 0
	}
	asked := s.Job.Batch.Ranks
	if asked > 1 && int64(s.Job.Command.Devices) == asked && s.Devices > 0 { // each card that it sees is a rank
		return int64(s.Devices)
	}
	return asked
}
