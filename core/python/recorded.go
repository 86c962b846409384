package python

// Recorded lists the options that a program has of the recorded dataclasses of a library, by their full names
// ("trl.SFTConfig"): of a program whose script is a library's own.
func RecordedOptions(how How, classes ...string) []Option {
	var r reader
	for _, c := range classes {
		for _, f := range recorded(c) {
			r.emitField(f, how, "", 0)
		}
	}
	return r.out
}
