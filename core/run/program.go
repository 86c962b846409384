package run

// A Program is the process that trains, as it was seen while it ran: not the shell, the launcher or the environment
// manager that started it.
type Program struct {
	// Args has the interpreter and its options as well. Secrets are masked; of an edited copy the file is named that was
	// copied.
	Args []string `json:"args"`
	Own  int      `json:"own"`           // Args[Own:] are the program's own arguments
	Dir  string   `json:"dir,omitempty"` // where it ran; "": not seen
	Env  []string `json:"env,omitempty"` // NAME=value, of the variables that were asked for
	// Shell: it is a shell, and no other program was seen. Its arguments need not have reached what it ran.
	Shell bool `json:"shell,omitempty"`
}
