package oom

import "strings"

// Words about what may have been prove nothing: lists of causes, hints, and documentation name an out-of-memory as
// well. Ray's raylet lists three causes of any lost worker; Slurm's and clusters' banners tell what to do "if" a job
// was killed.

var (
	// hedged are words of a sentence, before it names an out-of-memory, by which the sentence is only about a possibility.
	hedged = rx(`(?i)\b(?:may|might|maybe|perhaps|probably|possibl[ey]|possibility|usual(?:ly)?|often|typically|` +
		`sometimes|` +
		`common(?:ly)?|potential(?:ly)?|if|when(?:ever)? (?:you|your)|whether|in case|unless|could (?:have|be|lead|` +
		`cause|also|result)|` +
		`can (?:be|cause|lead|happen|occur|result|also|run)|would (?:be|cause|lead|have)|to (?:avoid|prevent|fix|` +
		`solve|reduce)|` +
		`avoid\w*|prevent\w*|e\.g|such as|causes|reasons|consider|make sure|risks?|suggests?|tip|hint|symptoms?)\b`)
	// listed are the marks of a list within a line: "(1) ", "2) "
	listed = rx(`(?:^|[\s:])\(?[1-9]\) [^()]{0,80}$`)
	// listHead is the line above a list of what may have been.
	listHead = rx(`(?i)\b(?:causes?|reasons?|possibilit(?:y|ies)|may|might|could|check|common|typical|potential|` +
		`troubleshooting|hints?|tips?|` +
		`suggestions?|solutions?)\b[^.]*:\s*$`)
	listItem = rx(`^\s*(?:[-*•·] |\(?\d+[.)] )`)
	// certainly are sentences with such words that a program prints of what did happen: slurmstepd's
	// (src/plugins/task/cgroup/task_cgroup_memory.c).
	certainly = rx(`Some of (?:your|the) (?:processes|step tasks) `)
)

// advises reports whether words for an out-of-memory, which begin at a byte of a text, name only a possibility.
func advises(rs []row, i int, text string, at int) bool {
	before := text[:at]
	sentence := before
	for _, end := range []string{". ", "; ", "! ", "? ", " -- "} {
		if n := strings.LastIndex(sentence, end); n >= 0 {
			sentence = sentence[n+len(end):]
		}
	}
	switch {
	case certainly.MatchString(text):
		return false
	case hedged.MatchString(sentence), listed.MatchString(before) && hedged.MatchString(before):
		return true
	}
	if !listItem.MatchString(rs[i].body) {
		return false
	}
	for n := i - 1; n >= max(0, i-8); n-- {
		switch body := rs[n].body; {
		case listHead.MatchString(body):
			return true
		case strings.TrimSpace(body) != "" && !listItem.MatchString(body):
			return false
		}
	}
	return false
}
