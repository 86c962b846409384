package root

import "github.com/launch-ml/launch/cmd/launch/internal/cli"

// HelpVersion is the version of [HelpDocument]. Fields are added within a version and never change their meaning.
const HelpVersion = 1

// HelpDocument is the output of `launch help --json`.
type HelpDocument struct {
	Version int `json:"version"`
	// Settings are the flags of launch itself. The commands that take them have "settings": true.
	Settings []FlagDoc    `json:"settings"`
	Commands []CommandDoc `json:"commands"`
}

// CommandDoc is a command of launch.
type CommandDoc struct {
	Command   string            `json:"command"` // "launch sweep plan"
	Use       string            `json:"use"`     // how it is typed
	Short     string            `json:"short"`
	Long      string            `json:"long"`
	Arguments string            `json:"arguments"` // of Use: what comes after its name; "" if it takes none
	Examples  []string          `json:"examples"`
	Settings  bool              `json:"settings"` // the settings of launch are flags of this command too
	Flags     []FlagDoc         `json:"flags"`    // the command's own
	ExitCodes []cli.ExitMeaning `json:"exit_codes"`
	// Uses are the settings of launch that have an effect on this command. It takes all of them.
	Uses []string `json:"uses"`
	// Documents are the JSON documents that it prints or writes: docs/schema/NAME.schema.json.
	Documents []string `json:"documents"`
}

// FlagDoc is a flag.
type FlagDoc struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`    // "bool", "string", "int", "duration", "stringArray" (it may be repeated) …
	Default   string `json:"default"` // as it would be typed; "" if there is none
	// Bare is the value of the flag without "="; absent if the flag needs a value.
	Bare  string `json:"bare,omitempty"`
	Usage string `json:"usage"`
	// Variable sets it in the environment; absent for a flag that is no setting of launch.
	Variable string `json:"variable,omitempty"`
}
