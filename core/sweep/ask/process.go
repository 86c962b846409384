package ask

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/sweep"
)

// Options are what a searcher needs.
type Options struct {
	Command  []string
	Dir      string
	Stderr   io.Writer // of the program
	Metric   string
	Patience time.Duration // for an answer; 0: no limit
	// Check returns an error if a trial cannot be run.
	Check func(sweep.Trial) error
}

// A Searcher is a program that chooses trials. It implements [sweep.Remote]. Its methods are called by one goroutine.
type Searcher struct {
	Options
	cmd   *exec.Cmd
	stdin io.WriteCloser
	mu    sync.Mutex
	queue []byte        // for the program
	sent  chan struct{} // something was added to it
	last  chan struct{} // closed when nothing more will be
	heard chan heard    // from the program
	ready chan struct{} // see Answered
	stop  chan struct{} // closed when nobody listens to it any more
	over  chan struct{} // closed when the program has ended
	once  sync.Once

	began   bool
	told    map[int]bool
	asked   int  // the number of the first trial of the open question; 0: none is open
	crossed bool // a result was told after that question; the answer may not know of it
	timer   *time.Timer
	waits   bool // the program wants results before it answers
	failed  error
	done    bool
}

// heard is a line of the program's, or why there are no more.
type heard struct {
	line []byte
	err  error
}

var _ sweep.Remote = (*Searcher)(nil)

const (
	longest = 1 << 20         // of a line
	grace   = 2 * time.Second // between two signals
)

// farewell is the time between the end of the program's input and a signal: it may save what it knows.
var farewell = 10 * time.Second

// Start starts the program.
func Start(o Options) (*Searcher, error) {
	s := &Searcher{Options: o, sent: make(chan struct{}, 1), last: make(chan struct{}), heard: make(chan heard, 1),
		ready: make(chan struct{}, 1),
		stop:  make(chan struct{}), over: make(chan struct{}), told: map[int]bool{}}
	s.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	s.cmd.Dir, s.cmd.Stderr = o.Dir, o.Stderr
	// A group of its own: Ctrl-C lets trials save, and it must hear of their results. Its end is the end of its input.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = grace
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the searcher: %w", err)
	}
	s.stdin = stdin
	go s.write()
	go s.read(stdout)
	return s, nil
}

// write passes on what was sent, until the program's input is to end. What the program does not read waits here,
// and holds nothing else up.
func (s *Searcher) write() {
	defer s.stdin.Close()
	for end := false; ; {
		s.mu.Lock()
		text := s.queue
		s.queue = nil
		s.mu.Unlock()
		if len(text) > 0 {
			if _, err := s.stdin.Write(text); err != nil {
				return // the program has ended, which read reports, or closed its input
			}
			continue
		}
		if end {
			return
		}
		select {
		case <-s.sent:
		case <-s.last:
			end = true
		}
	}
}

// read delivers the program's lines, and last how it ended.
func (s *Searcher) read(stdout io.Reader) {
	in := bufio.NewScanner(stdout)
	in.Buffer(nil, longest)
	for in.Scan() {
		if line := bytes.TrimSpace(in.Bytes()); len(line) > 0 {
			s.deliver(heard{line: bytes.Clone(line)})
		}
	}
	if err := in.Err(); err != nil {
		s.deliver(heard{err: fmt.Errorf("reading what the searcher (%s) prints: %w", strings.Join(s.Command, " "), err)})
		_, _ = io.Copy(io.Discard, stdout) // it must not hang on the rest
	}
	err := s.cmd.Wait()
	close(s.over)
	if err == nil {
		err = errors.New("exit code 0")
	}
	s.deliver(heard{err: fmt.Errorf("the searcher (%s) ended before it had answered \"done\": %w",
		strings.Join(s.Command, " "), err)})
}

func (s *Searcher) deliver(h heard) {
	select {
	case s.heard <- h:
		s.wake()
	case <-s.stop:
	}
}

func (s *Searcher) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Answered implements [sweep.Remote].
func (s *Searcher) Answered() <-chan struct{} { return s.ready }

// Awaiting implements [sweep.Remote].
func (s *Searcher) Awaiting() (bool, error) { return s.asked > 0 && s.failed == nil, s.failed }

// Next implements [sweep.Searcher]. It does not wait for the program.
func (s *Searcher) Next(h *sweep.History) ([]sweep.Trial, bool) {
	s.begin(h)
	s.tell(h)
	var next []sweep.Trial
	select {
	case got := <-s.heard:
		next = s.take(h, got)
	default:
		if s.asked > 0 && s.timer != nil && s.late() {
			s.failed = fmt.Errorf("the searcher (%s) has not answered within %v: it prints one line of JSON for each "+
				"{\"ask\": …}, "+
				"and flushes it; --ask-timeout sets the limit", strings.Join(s.Command, " "), s.Patience)
		}
	}
	if s.failed == nil && !s.done {
		s.ask(h, len(next))
	}
	return next, s.done
}

func (s *Searcher) late() bool {
	select {
	case <-s.timer.C:
		return true
	default:
		return false
	}
}

// begin sends the first line, and what runs already.
func (s *Searcher) begin(h *sweep.History) {
	if s.began {
		return
	}
	s.began = true
	s.send(hello{Version, h.Spec.Name, s.Metric, h.Spec.Jobs})
	for _, r := range h.Rows {
		if _, ended := tell(r, s.Metric); !ended {
			s.send(told{Trial: r.Number, Assignment: settings(r.Assignment), Running: true})
		}
	}
}

// tell sends what is new. It ends the program's wait.
func (s *Searcher) tell(h *sweep.History) {
	for _, r := range h.Rows {
		if s.told[r.Number] {
			continue
		}
		if t, ok := tell(r, s.Metric); ok {
			s.send(t)
			s.told[r.Number], s.waits, s.crossed = true, false, s.asked > 0
		}
	}
}

// take takes an answer.
func (s *Searcher) take(h *sweep.History, got heard) []sweep.Trial {
	first := s.asked
	s.asked = 0
	if s.timer != nil {
		s.timer.Stop()
	}
	if got.err != nil {
		s.failed = got.err
		return nil
	}
	if first == 0 {
		s.failed = fmt.Errorf("the searcher printed %.200q without being asked (anything but answers goes to standard "+
			"error)", got.line)
		return nil
	}
	a, trials, err := parse(got.line, first)
	for _, t := range trials {
		if err == nil {
			if err = s.Check(t); err != nil {
				err = fmt.Errorf("the searcher's trial %d: %w", t.Number, err)
			}
		}
	}
	if err != nil {
		s.failed = err
		return nil
	}
	s.done, s.waits = a.Done, a.Wait && !s.crossed
	if s.waits && len(h.Running())+len(h.Waiting()) == 0 {
		s.failed = errors.New("the searcher waits for results, and no trial runs")
	}
	return trials
}

// ask asks for as many trials as can start.
func (s *Searcher) ask(h *sweep.History, listed int) {
	room := h.Spec.Jobs - len(h.Running()) - len(h.Waiting()) - listed
	if s.asked > 0 || s.waits || room < 1 {
		return
	}
	s.asked, s.crossed = len(h.Rows)+listed+1, false
	s.send(question{room, s.asked})
	if s.Patience > 0 {
		s.timer = time.NewTimer(s.Patience)
		time.AfterFunc(s.Patience+time.Millisecond, s.wake)
	}
}

func (s *Searcher) send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		s.failed = err
		return
	}
	s.mu.Lock()
	s.queue = append(append(s.queue, line...), '\n')
	s.mu.Unlock()
	select {
	case s.sent <- struct{}{}:
	default:
	}
}

// Close tells the program the last results and ends it: its input ends, then it is asked to stop, then it is killed.
func (s *Searcher) Close(h *sweep.History) {
	s.once.Do(func() {
		if s.failed == nil && s.began {
			s.tell(h)
		}
		patience := farewell
		if s.failed != nil { // it has had its time
			patience = grace / 10
		}
		close(s.last)
		close(s.stop)
		for _, step := range []struct {
			sig  syscall.Signal
			wait time.Duration
		}{{0, patience}, {syscall.SIGTERM, grace}, {syscall.SIGKILL, grace}} {
			if step.sig != 0 {
				syscall.Kill(-s.cmd.Process.Pid, step.sig)
			}
			select {
			case <-s.over:
				return
			case <-time.After(step.wait):
			}
		}
	})
}
