package config

import (
	"encoding/json"
	"errors"
	"fmt"
)

// JSON is a JSON file. It is read as the YAML that it is, and after each edit it has to be JSON.
type JSON struct{ *YAML }

// ParseJSON reads a JSON file whose root is an object. Comments and trailing commas are errors: the program that reads
// the file with Python's json module would not take them either.
func ParseJSON(text []byte) (*JSON, error) {
	var any json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		return nil, err
	}
	d, err := ParseYAML(text)
	if err != nil {
		return nil, err
	}
	d.json = true
	return &JSON{d}, nil
}

// Set implements [Document].
func (d *JSON) Set(path, text string) error {
	if !json.Valid([]byte(text)) {
		return fmt.Errorf("%q is not a JSON value", text)
	}
	next := *d.YAML
	if err := next.Set(path, text); err != nil {
		return err
	}
	if !json.Valid(next.Bytes()) {
		return errors.New("the edited file would not be JSON")
	}
	next.json = true
	*d.YAML = next
	return nil
}

// Text implements [Tree].
func (d *JSON) Text(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

func jsonText(key string) string {
	text, _ := json.Marshal(key) // of a string there is no error
	return string(text)
}
