package main

import (
	"os"
	"testing"

	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// The plugin passes the kit on the recipes, as in `launch plugins test .`.
func TestKit(t *testing.T) {
	plugintest.Recipes(t, family{}, "recipes", os.Environ())
}
