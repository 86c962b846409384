package oom

// RuleNames are the names of what ends a program instead of memory, for tests outside this package.
func RuleNames() (names []string) {
	for _, r := range rules {
		if r.name != "" && r.name != "exception" {
			names = append(names, r.name)
		}
	}
	return names
}
