package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options are how a screen is shown.
type Options struct {
	Every  time.Duration // between two looks
	Colour bool
	Look   func(time.Time) Snapshot
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
}

// frames is how often, per second, a change reaches the terminal: a key is answered within 50 ms.
const frames = 20

// ErrFailed is wrapped by the error of [Show] if the screen failed. The terminal is as it was before.
var ErrFailed = errors.New("the screen failed")

// Show shows the screen until the user leaves it or ctx is done. It restores the terminal on every way out.
func Show(ctx context.Context, o Options) error {
	_, err := program(ctx, o).Run()
	switch {
	case err == nil, errors.Is(err, tea.ErrInterrupted), ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

func program(ctx context.Context, o Options, also ...tea.ProgramOption) *tea.Program {
	m := &model{options: o, screen: &Screen{Colour: o.Colour}}
	return tea.NewProgram(m, append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithFPS(frames)}, also...)...)
}

// model adapts a screen to bubbletea.
type model struct {
	options Options
	screen  *Screen
	text    string
}

// looked is a new snapshot, and due asks for the next one.
type (
	looked Snapshot
	due    struct{}
)

func (m *model) look() tea.Msg { return looked(m.options.Look(time.Now())) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.look }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case due:
		return m, m.look
	case looked:
		m.screen.Take(Snapshot(msg))
		next = tea.Tick(m.options.Every, func(time.Time) tea.Msg { return due{} })
	case tea.WindowSizeMsg:
		m.screen.Width, m.screen.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" {
			return m, tea.Suspend
		}
		if m.screen.Key(msg.String(), msg.Text) {
			return m, tea.Quit
		}
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft {
			m.screen.Click(msg.X, msg.Y)
		}
	case tea.MouseWheelMsg:
		m.screen.Wheel(msg.Button == tea.MouseWheelDown)
	default:
		return m, nil
	}
	m.text = m.screen.Text()
	return m, next
}

// View implements tea.Model.
func (m *model) View() tea.View {
	return tea.View{Content: m.text, AltScreen: true, MouseMode: tea.MouseModeCellMotion}
}
